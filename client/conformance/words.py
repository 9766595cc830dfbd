"""The short forms of the cases: objects, events, bookmarks, lines, and what matches what.

A case's own objects are of the collection `pods` and the namespace `default`; a name with two
slashes (`COLLECTION/NAMESPACE/NAME`) says otherwise.
"""

import base64

from listwatch.v1 import listwatch_pb2 as pb

BOOKMARKS = {
    "begin": pb.BOOKMARK_KIND_INITIAL_STATE_BEGIN,
    "end": pb.BOOKMARK_KIND_INITIAL_STATE_END,
    "progress": pb.BOOKMARK_KIND_PROGRESS,
    "resumed": pb.BOOKMARK_KIND_RESUMED,
    "going_away": pb.BOOKMARK_KIND_GOING_AWAY,
    "net": pb.BOOKMARK_KIND_NET_BEGIN,
    "manifest": pb.BOOKMARK_KIND_MANIFEST_BEGIN,
    "unspecified": pb.BOOKMARK_KIND_UNSPECIFIED,
}
EVENTS = {
    "existing": pb.EVENT_TYPE_EXISTING,
    "added": pb.EVENT_TYPE_ADDED,
    "modified": pb.EVENT_TYPE_MODIFIED,
    "deleted": pb.EVENT_TYPE_DELETED,
    "unchanged": pb.EVENT_TYPE_UNCHANGED,
    "upserted": pb.EVENT_TYPE_UPSERTED,
}
POINTS = ("init_done", "caught_up", "resumed", "bookmark")
OBJECTS = ("init_apply", "apply", "delete", "unchanged")


def key(name):
    """The three parts of a name."""
    parts = str(name).split("/")
    if len(parts) == 1:
        parts = ["pods", "default"] + parts
    return {"collection": parts[0], "namespace": parts[1], "name": parts[2]}


def shown(name):
    """As reflectors name it."""
    parts = key(name)
    return f"{parts['namespace']}/{parts['name']}"


def full(command):
    """A command with its short forms written out."""
    command = dict(command)
    for field in ("resource", "key", "selector"):
        value = command.get(field)
        if field == "selector" and isinstance(value, str):
            command[field] = {"collection": value}
        elif field == "key" and isinstance(value, str):
            command[field] = key(value)
        elif field == "resource" and isinstance(value, str):
            command[field] = {"key": key(value)}
        elif field == "resource" and isinstance(value, dict):
            value = dict(value)
            if isinstance(value.get("key"), str):
                value["key"] = key(value["key"])
            if "size" in value:
                value["value"] = base64.b64encode(b"x" * value.pop("size")).decode()
            command[field] = value
    return command


def parted(text):
    """Words, and those of the form NAME=VALUE apart."""
    plain, named = [], {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if equals:
            named[name] = value
        else:
            plain.append(word)
    return plain, named


def at_revision(word):
    name, _, revision = word.partition("@")
    return name, int(revision or 0)


def resource(word, named):
    name, revision = at_revision(word)
    value = b"x" * int(named["size"]) if "size" in named else f"{name}@{revision}".encode()
    made = pb.Resource(
        uid=named.get("uid", f"uid-{name}"),
        revision=revision,
        create_revision=int(named.get("created", 1)),
        value=value,
    )
    if "time" in named:
        made.update_time.seconds = int(named["time"])
    if named.get("key") != "none":
        made.key.CopyFrom(pb.Key(**key(name)))
    return made


def add_to(response, text):
    """Adds one event or the bookmark to a WatchResponse."""
    plain, named = parted(text)
    kind = plain[0] if plain else ""
    if kind in EVENTS or "type" in named:
        event = response.events.add()
        event.type = int(named["type"]) if "type" in named else EVENTS[kind]
        word = plain[0] if "type" in named else plain[1]
        if named.get("resource") != "none":
            event.resource.CopyFrom(resource(word, named))
        if "previous" in named:
            event.previous.CopyFrom(resource(f"{at_revision(word)[0]}@{named['previous']}", {}))
        if "cause" in named:
            event.delete_cause = pb.DeleteCause.Value(f"DELETE_CAUSE_{named['cause'].upper()}")
        return
    if "kind" in named:
        plain.insert(0, named["kind"])
    number = int(plain[0]) if plain[0].isdigit() else BOOKMARKS[plain[0]]
    revision = int(plain[1]) if len(plain) > 1 else 0
    token = plain[2] if len(plain) > 2 else named.get("token", f"t{revision}")
    bookmark = response.bookmark
    bookmark.SetInParent()
    bookmark.kind = number
    bookmark.revision = revision
    bookmark.resume_token = token
    bookmark.latest_revision = int(named.get("latest", revision))


def response(item):
    made = pb.WatchResponse()
    for text in item if isinstance(item, list) else [item]:
        add_to(made, text)
    return made


def start_of(request):
    """Where a Watch was to start, in the cases' words."""
    kind = request.WhichOneof("start")
    if kind == "resume_token":
        return f"token {request.resume_token}"
    if kind == "after_revision":
        return f"after {request.after_revision}"
    return {"now": "now", "initial_state": "initial", None: "initial"}[kind]


def revision_or_none(word):
    return None if word == "none" else {"revision": int(word)}


def line(item):
    """What a line of the agent must hold."""
    if isinstance(item, dict):
        item = dict(item)
        short = item.pop("is", None)
        return merged(line(short), item) if short else item
    words = item.split()
    kind = words[0]
    if kind == "synced":
        return {"synced": True}
    if kind in ("refused", "expired", "closed"):
        return {"ended": kind}
    if len(words) == 2 and ">" in words[1]:
        old, _, new = words[1].partition(">")
        change = {"key": shown(kind), "old": revision_or_none(old), "new": revision_or_none(new)}
        return {"change": change}
    wanted = {"event": kind}
    if kind in POINTS and len(words) > 1:
        wanted["revision"] = int(words[1])
        if len(words) > 2:
            wanted["resume_token"] = words[2]
    elif kind in OBJECTS and len(words) > 1:
        name, revision = at_revision(words[1])
        wanted["object"] = {"key": key(name)}
        if revision:
            wanted["object"]["revision"] = revision
        if len(words) > 2:
            wanted["change" if kind == "apply" else "cause"] = words[2]
    elif kind == "disconnected" and len(words) > 1:
        wanted["cause"] = words[1]
        if len(words) > 2:
            wanted["error"] = {"code": words[2]}
    elif len(words) > 1:
        raise ValueError(f"not understood: {item!r}")
    return wanted


def merged(one, other):
    both = dict(one)
    for name, value in other.items():
        both[name] = merged(both[name], value) if isinstance(both.get(name), dict) else value
    return both


def part_matches(name, wanted, seen):
    # Durations may be rounded on their way.
    is_duration = name in ("retry_in", "retry_after") and isinstance(wanted, int)
    if is_duration and isinstance(seen, (int, float)) and not isinstance(seen, bool):
        return abs(wanted - seen) <= 2
    return matches(wanted, seen)


def matches(wanted, seen):
    """Whether all that is wanted is there. Numbers match their text, for ProtoJSON."""
    if isinstance(wanted, dict):
        bounds = {"at_least", "at_most"}
        if wanted and set(wanted) <= bounds:
            if isinstance(seen, bool) or not isinstance(seen, (int, float)):
                return False
            low, high = wanted.get("at_least", seen), wanted.get("at_most", seen)
            return low <= seen <= high
        if set(wanted) == {"not"}:
            return not matches(wanted["not"], seen)
        if not isinstance(seen, dict):
            return False
        return all(part_matches(name, value, seen.get(name)) for name, value in wanted.items())
    if isinstance(wanted, list):
        same_length = isinstance(seen, list) and len(wanted) == len(seen)
        return same_length and all(matches(w, s) for w, s in zip(wanted, seen))
    if isinstance(wanted, bool) or wanted is None or isinstance(seen, bool):
        return wanted is seen
    if isinstance(wanted, (int, float)) and isinstance(seen, str):
        return str(wanted) == seen
    if isinstance(wanted, str) and isinstance(seen, (int, float)):
        return wanted == str(seen)
    return wanted == seen
