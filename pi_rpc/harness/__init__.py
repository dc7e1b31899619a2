"""One coding session: agent, session, tools and settings in one working directory."""
