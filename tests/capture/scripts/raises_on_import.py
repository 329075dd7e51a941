import json

CONFIGURATION = json.loads("{not json")


def generate():
    return []
