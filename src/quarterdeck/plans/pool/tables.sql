-- The tables of a pool, version 1. Times are those of the database alone: no clock of a worker counts.
-- Documents are JSON as text: what an agent says may have characters that jsonb does not take.

CREATE SCHEMA quarterdeck;

CREATE TABLE quarterdeck.pool (
    version integer NOT NULL,
    created timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE quarterdeck.workers (
    id text PRIMARY KEY,
    name text NOT NULL,
    labels text[] NOT NULL,
    slots integer NOT NULL,
    program text NOT NULL,
    state text NOT NULL CHECK (state IN ('active', 'draining', 'gone')),
    seen timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE quarterdeck.runs (
    id text PRIMARY KEY,
    name text NOT NULL UNIQUE,
    definition text NOT NULL,
    at_once integer NOT NULL,
    state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'stopped', 'done', 'failed')),
    submitted_by text NOT NULL,
    created timestamptz NOT NULL DEFAULT now(),
    ended timestamptz,
    cleaned timestamptz
);

-- A task is worked on by the worker that holds its lease. Each new lease has the next token, and
-- whatever a worker writes about a task is written only while its token is the task's.
CREATE TABLE quarterdeck.tasks (
    run text NOT NULL REFERENCES quarterdeck.runs ON DELETE CASCADE,
    key text NOT NULL,
    place integer NOT NULL,
    needs text[] NOT NULL,
    labels text[] NOT NULL,
    agents text[] NOT NULL DEFAULT '{}',
    state text NOT NULL CHECK (state IN ('waiting', 'ready', 'leased', 'ended')),
    outcome text NOT NULL DEFAULT '',
    worker text,
    token bigint NOT NULL DEFAULT 0,
    lease_until timestamptz,
    not_before timestamptz NOT NULL DEFAULT now(),
    failures integer NOT NULL DEFAULT 0,
    PRIMARY KEY (run, key)
);
CREATE INDEX tasks_open ON quarterdeck.tasks (run, place) WHERE state IN ('ready', 'leased');
CREATE INDEX tasks_leased ON quarterdeck.tasks (lease_until) WHERE state = 'leased';

-- How many tasks with an agent or a label at a time, and what a day may cost.
CREATE TABLE quarterdeck.limits (
    kind text NOT NULL CHECK (kind IN ('vendor', 'label', 'budget')),
    name text NOT NULL,
    most double precision NOT NULL,
    PRIMARY KEY (kind, name)
);

-- What a task's workflow has done: a step that is here is not done again, by whichever worker.
CREATE TABLE quarterdeck.steps (
    run text NOT NULL,
    task text NOT NULL,
    path text NOT NULL,
    name text NOT NULL,
    result text NOT NULL,
    token bigint NOT NULL,
    worker text NOT NULL,
    PRIMARY KEY (run, task, path, name),
    FOREIGN KEY (run, task) REFERENCES quarterdeck.tasks ON DELETE CASCADE
);

-- What a person reads about a run.
CREATE TABLE quarterdeck.progress (
    id bigint GENERATED ALWAYS AS IDENTITY,
    run text NOT NULL REFERENCES quarterdeck.runs ON DELETE CASCADE,
    key text NOT NULL,
    entry text NOT NULL,
    PRIMARY KEY (run, key)
);

-- The files of a contender after its last turn, at the git remote of the run.
CREATE TABLE quarterdeck.trees (
    run text NOT NULL,
    task text NOT NULL,
    contender text NOT NULL,
    token bigint NOT NULL,
    reference text NOT NULL,
    commit_id text NOT NULL,
    session text NOT NULL DEFAULT '',
    included text NOT NULL DEFAULT '',
    PRIMARY KEY (run, task, contender, token),
    FOREIGN KEY (run, task) REFERENCES quarterdeck.tasks ON DELETE CASCADE
);

-- The files in which a vendor keeps the session of a contender, as they were after its last whole
-- turn, in pieces as they grew; secrets are masked.
CREATE TABLE quarterdeck.carried (
    run text NOT NULL,
    task text NOT NULL,
    contender text NOT NULL,
    token bigint NOT NULL,
    agent text NOT NULL,
    agent_session text NOT NULL,
    PRIMARY KEY (run, task, contender, token),
    FOREIGN KEY (run, task) REFERENCES quarterdeck.tasks ON DELETE CASCADE
);
CREATE TABLE quarterdeck.session_files (
    run text NOT NULL,
    task text NOT NULL,
    contender text NOT NULL,
    token bigint NOT NULL,
    name text NOT NULL,
    position bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (run, task, contender, token, name, position),
    FOREIGN KEY (run, task) REFERENCES quarterdeck.tasks ON DELETE CASCADE
);

CREATE TABLE quarterdeck.sessions (
    session text PRIMARY KEY,
    run text NOT NULL,
    task text NOT NULL,
    worker text NOT NULL,
    token bigint NOT NULL,
    name text NOT NULL,
    info text NOT NULL,
    cost double precision NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    updated timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (run, task) REFERENCES quarterdeck.tasks ON DELETE CASCADE
);
CREATE INDEX sessions_task ON quarterdeck.sessions (run, task);
CREATE INDEX sessions_name ON quarterdeck.sessions (name);
CREATE INDEX sessions_updated ON quarterdeck.sessions (updated);

-- The records of the workers' logs; seq is that of the worker's log. What was said is there as text
-- too, for search; message: which records together are one message.
CREATE TABLE quarterdeck.events (
    worker text NOT NULL,
    session text NOT NULL REFERENCES quarterdeck.sessions ON DELETE CASCADE,
    seq bigint NOT NULL,
    kind text NOT NULL,
    request text,
    token bigint NOT NULL,
    time bigint NOT NULL DEFAULT 0,
    message text,
    spoken text,
    record text NOT NULL,
    PRIMARY KEY (worker, session, seq)
);
CREATE INDEX events_session ON quarterdeck.events (session, seq);
CREATE INDEX events_kind ON quarterdeck.events (kind) WHERE kind <> 'message_chunk';
CREATE INDEX events_request ON quarterdeck.events (request) WHERE request IS NOT NULL;

-- Answers of people to requests of agents, until the worker of the agent has taken them.
CREATE TABLE quarterdeck.answers (
    request text PRIMARY KEY,
    session text NOT NULL REFERENCES quarterdeck.sessions ON DELETE CASCADE,
    answer text NOT NULL,
    given_by text NOT NULL,
    created timestamptz NOT NULL DEFAULT now(),
    taken timestamptz,
    refused text NOT NULL DEFAULT ''
);

INSERT INTO quarterdeck.pool (version) VALUES (1);
