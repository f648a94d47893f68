"""The JSON API: sign-in, roles, calls of the fleet, errors, and the document about it."""

import asyncio
import json

import pytest

from quarterdeck.fleet.method import FLEET_METHODS
from quarterdeck.web.api_methods import OFFERED_METHODS, find_role, make_document, parameters_of
from quarterdeck.wire.events import PermissionAnswered
from tests.support.web_rig import WebRig


async def test_a_paired_device_sees_agents_and_answers_under_its_persons_name(rig: WebRig):
    await rig.spawn("ann", "ask")
    phone = await rig.paired("approver", person="Ann", name="phone")
    agents = (await phone.post("/api/v1/fleet/agents", json={})).json()
    assert [(one["name"], one["needs_person"]) for one in agents] == [("ann", True)]
    (item,) = (await phone.post("/api/v1/fleet/inbox", json={})).json()
    answer = await phone.post(
        "/api/v1/fleet/answer", json={"request": item["request"], "choice": "allow_once"}
    )
    assert answer.json() is True
    answered = [r.event for r in rig.fleet.records if isinstance(r.event, PermissionAnswered)]
    assert [(one.by.kind, one.by.name) for one in answered] == [("person", "Ann (phone)")]


async def test_who_acts_cannot_be_given(rig: WebRig):
    await rig.spawn("ann", "ask")
    phone = await rig.paired()
    (item,) = (await phone.post("/api/v1/fleet/inbox", json={})).json()
    body = {"request": item["request"], "choice": "allow_once", "by": "someone"}
    answer = await phone.post("/api/v1/fleet/answer", json=body)
    assert answer.status_code == 400 and "by" in answer.json()["message"]
    for method in OFFERED_METHODS:
        names = set(parameters_of(method).__struct_fields__)
        assert not {"sender", "origin", "author"} & names, method
        assert "by" not in names or method == "usage", method


async def test_usage_is_grouped_as_it_is_asked(rig: WebRig):
    client = await rig.paired("viewer")
    answer = await client.post("/api/v1/fleet/usage", json={"by": "day"})
    assert answer.status_code == 200 and answer.json()["by"] == "day"


@pytest.mark.parametrize(
    ("role", "method", "body", "status"),
    [
        ("viewer", "answer", {"request": "r", "choice": "allow_once"}, 403),
        ("viewer", "reply", {"request": "r", "action": "accept"}, 403),
        ("viewer", "send", {"agent": "ann", "content": []}, 403),
        ("viewer", "agents", {}, 200),
        ("approver", "kill", {"agent": "ann"}, 403),
        ("approver", "answer", {"request": "gone", "choice": "allow_once"}, 404),
        ("approver", "write_terminal", {"terminal": "t", "data": ""}, 403),
        ("operator", "kill", {"agent": "ann"}, 200),
        ("operator", "kill", {"agent": "bob"}, 404),
        ("operator", "kill", {}, 400),
        ("operator", "kill", {"agent": "ann", "more": 1}, 400),
        ("operator", "call_screen", {"name": "x", "arguments": {}}, 404),
        ("operator", "nothing", {}, 404),
    ],
)
async def test_roles_and_errors(rig: WebRig, role, method, body, status):
    await rig.spawn("ann")
    client = await rig.paired(role)
    answer = await client.post(f"/api/v1/fleet/{method}", json=body)
    assert answer.status_code == status, answer.text
    if status != 200:
        assert set(answer.json()) == {"error", "message"}


def test_every_method_that_changes_something_needs_more_than_a_viewer():
    changing = [name for name in OFFERED_METHODS if FLEET_METHODS[name].changes]
    assert changing and not [name for name in changing if find_role(name) == "viewer"]
    typing = ("write_terminal", "paste_terminal", "resize_terminal")
    assert {find_role(name) for name in typing} == {"operator"}


async def test_a_call_that_is_repeated_with_its_key_is_made_once(rig: WebRig):
    await rig.spawn("ann")
    client = await rig.paired()
    body = {"agent": "ann", "content": [{"type": "text", "text": "say hello"}]}
    calls = [
        client.post("/api/v1/fleet/send", json=body, headers={"idempotency-key": "tap-1"})
        for _ in range(3)
    ]
    answers = [one.json() for one in await asyncio.gather(*calls)]
    assert len(set(answers)) == 1
    other = await client.post("/api/v1/fleet/send", json=body, headers={"idempotency-key": "tap-2"})
    assert other.json() not in answers
    said = [r for r in rig.fleet.records if type(r.event).__name__ == "MessageChunk"]
    assert len(said) == 2


async def test_one_request_raced_from_many_sides_is_decided_once(rig: WebRig):
    await rig.spawn("ann", "ask")
    browsers = [await rig.paired("approver", name=f"b{n}") for n in range(3)]
    (item,) = await rig.fleet.inbox()
    body = {"request": item.request, "choice": "allow_once"}
    web = [one.post("/api/v1/fleet/answer", json=body) for one in browsers]
    own = rig.fleet.answer(item.request, "reject_once", by="cli")
    first, *others = await asyncio.gather(own, *web)
    assert [first, *(one.json() for one in others)].count(True) == 1
    answered = [r for r in rig.fleet.records if isinstance(r.event, PermissionAnswered)]
    assert len(answered) == 1


async def test_records_are_read_in_pages_and_one_of_them_whole(rig: WebRig):
    await rig.spawn("ann", "big 300000")
    client = await rig.paired("viewer")
    page = (await client.get("/api/v1/records", params={"agent": "ann"})).json()["records"]
    cut = next(one for one in page if one.get("is_cut"))
    assert len(json.dumps(cut)) < 50_000 and "more characters" in cut["event"]["content"]["text"]
    whole = (await client.get(f"/api/v1/records/{cut['seq']}")).json()
    assert whole["event"]["content"]["text"] == "x" * 300_000
    last = (await client.get("/api/v1/records", params={"before": 3, "limit": 1})).json()
    assert [one["seq"] for one in last["records"]] == [2]
    assert (await client.get("/api/v1/records/999999")).status_code == 404
    assert (await client.get("/api/v1/records", params={"after": "-1"})).status_code == 400


async def test_devices_are_listed_without_keys_and_revoked(rig: WebRig):
    operator, viewer = await rig.paired(name="desk"), await rig.paired("viewer", name="tv")
    listed = (await viewer.get("/api/v1/devices")).json()
    assert [(one["name"], one["role"]) for one in listed] == [
        ("desk", "operator"),
        ("tv", "viewer"),
    ]
    assert "digest" not in json.dumps(listed)
    refused = await viewer.post("/api/v1/devices/revoke", json={"device": listed[0]["id"]})
    assert refused.status_code == 403
    await operator.post("/api/v1/devices/revoke", json={"device": listed[1]["id"]})
    assert (await viewer.get("/api/v1/session")).status_code == 401
    assert (await operator.post("/api/v1/sign-out")).status_code == 200
    assert (await operator.get("/api/v1/session")).status_code == 401


async def test_an_operator_makes_a_link_that_pairs_another_device(rig: WebRig):
    operator = await rig.paired(person="Ann")
    answer = await operator.post("/api/v1/devices/pair", json={"role": "viewer"})
    link = answer.json()["link"]
    assert link.startswith(f"{rig.url}/pair#")
    other = rig.client()
    paired = await other.post("/api/v1/pair", json={"code": link.partition("#")[2], "name": "tv"})
    assert paired.json()["device"]["role"] == "viewer"
    assert paired.json()["device"]["person"] == "Ann"


async def test_a_program_signs_in_with_a_header_and_needs_no_origin(rig: WebRig):
    device, key = await asyncio.to_thread(rig.store.add_device, "script", "ann", "viewer")
    client = rig.client()
    del client.headers["origin"]
    signed = {"authorization": f"Bearer {key}"}
    answer = await client.post("/api/v1/fleet/status", json={}, headers=signed)
    assert answer.status_code == 200
    assert str(key) not in repr(key) and device.digest not in str(key)


def test_the_document_describes_every_method():
    document = json.loads(make_document())
    assert document["openapi"] == "3.1.0"
    paths = {path.rpartition("/")[2] for path in document["paths"] if "/fleet/" in path}
    assert paths == set(OFFERED_METHODS)
    defined = set(document["components"]["schemas"])
    used = set(json.dumps(document).split("#/components/schemas/")[1:])
    assert {one.partition('"')[0] for one in used} <= defined


async def test_a_host_that_is_gone_is_reported_as_such(rig: WebRig):
    client = await rig.paired()
    await rig.host.stop()
    answer = await client.post("/api/v1/fleet/agents", json={})
    assert answer.status_code == 503 and answer.json()["message"]
