#!/usr/bin/env python3
"""Uploads a video, opens a session over it, asks a question and prints what happens as it happens.

    python examples/ask.py VIDEO "QUESTION" [--agent ambient_v1|ambient_fast]

AMBIENT_BASE_URL (http://127.0.0.1:8080) and AMBIENT_API_KEY (dev-token) say which engine is asked.
Needs the official SDK: pip install -r examples/requirements.txt
"""
import argparse
import json
import os
import sys
import time

from anthropic import Anthropic


def shortened(text: str, limit: int = 300) -> str:
    """One line of at most this many characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit] + " …"


def said(content) -> str:
    """The text of content blocks; other kinds by their name."""
    return "\n".join(block.text if block.type == "text" else f"[{block.type}]" for block in content or [])


def follow(client: Anthropic, session_id: str, question: str) -> bool:
    """Asks, and prints the run's events until the session is idle again. False when the run failed."""
    previewed = set()
    failed = False
    # Opened before the question is sent, so that no event can be missed.
    with client.beta.sessions.events.stream(session_id, event_deltas=["agent.message"]) as events:
        message = {"type": "user.message", "content": [{"type": "text", "text": question}]}
        client.beta.sessions.events.send(session_id, events=[message])
        for event in events:
            if event.type == "event_start":
                print("answer:      ", end="", flush=True)
            elif event.type == "event_delta":
                previewed.add(event.event_id)
                print(event.delta.content.text, end="", flush=True)
            elif event.type == "agent.message":
                print() if event.id in previewed else print("answer:     ", said(event.content))
            elif event.type == "agent.tool_use":
                print("tool call:  ", event.name, json.dumps(event.input, ensure_ascii=False))
            elif event.type == "agent.tool_result":
                print("tool error: " if event.is_error else "tool result:", shortened(said(event.content)))
            elif event.type == "session.error":
                failed = event.error.retry_status.type != "retrying"
                print("error:      ", event.error.message)
            elif event.type == "session.status_terminated":
                return False
            elif event.type == "session.status_idle":
                return not failed
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description="Asks a question about a video.")
    parser.add_argument("video")
    parser.add_argument("question")
    parser.add_argument("--agent", default="ambient_v1", help="ambient_v1 (plans and calls tools) or ambient_fast (one look)")
    words = parser.parse_args()

    client = Anthropic(
        base_url=os.environ.get("AMBIENT_BASE_URL", "http://127.0.0.1:8080"),
        api_key=os.environ.get("AMBIENT_API_KEY", "dev-token"),
    )
    with open(words.video, "rb") as source:
        video = client.beta.files.upload(file=source)
    print("video:      ", video.id, video.filename, f"({video.size_bytes} bytes)")

    session = client.beta.sessions.create(agent=words.agent, environment_id="default", metadata={"video_id": video.id})
    while (session := client.beta.sessions.retrieve(session.id)).status == "pending":
        time.sleep(1)
    print("session:    ", session.id, session.status, session.sandbox)

    print("question:   ", words.question)
    return 0 if follow(client, session.id, words.question) else 1


if __name__ == "__main__":
    sys.exit(main())
