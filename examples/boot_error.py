from verify_sandbox import client, session  # makes the session whose errors are read; leave out where you have both

for ev in client.beta.sessions.events.list(session.id).data:
    if ev.type == "session.error":
        print(ev.error.message)
