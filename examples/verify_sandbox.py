import time
from anthropic import Anthropic

client = Anthropic(base_url="http://127.0.0.1:8080", api_key="dev-token")

video = client.beta.files.upload(file=open("clip.mp4", "rb"))
session = client.beta.sessions.create(
    agent="ambient_v1",           # built-in Agent-mode agent
    environment_id="default",     # built-in environment
    metadata={"video_id": video.id},
)

while (s := client.beta.sessions.retrieve(session.id)).status == "pending":
    time.sleep(1)

print(s.status)    # "idle" once the sandbox is up
print(s.sandbox)   # {'backend': 'e2b', 'status': 'ready', 'id': '<e2b sandbox id>'}
