"""The tutorial: real commands on a scripted model, in a project and a home of its own."""
