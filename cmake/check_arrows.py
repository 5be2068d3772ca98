#!/usr/bin/env python3
"""Checks that every #include follows an arrow between rooms that CMake declares.

    cmake/check_arrows.py build/release/rooms.json

A header may include what its room links PUBLIC, a source what its room links at all, each with what these
rooms link PUBLIC in turn. Arrows may form no circle. Prints what is wrong, one line each; exit status 1
where anything is.
"""
import json
import os
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
SOURCE_ENDINGS = (".h", ".cpp", ".inc")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Room:
    def __init__(self, entry, root):
        self.name = entry["name"]
        self.folder = os.path.relpath(entry["folder"], root)
        self.public = entry["public"]
        self.private = entry["private"]
        self.listed = {os.path.join(self.folder, file) for file in entry["headers"] + entry["sources"]}
        self.has_own_folder = not entry["headers"]


def find_rooms(path, root):
    rooms = {entry["name"]: Room(entry, root) for entry in json.loads(read(path))}
    owner = {file: room for room in rooms.values() for file in room.listed}
    for room in rooms.values():
        if room.has_own_folder:
            for file in os.listdir(os.path.join(root, room.folder)):
                if file.endswith(SOURCE_ENDINGS):
                    owner.setdefault(os.path.join(room.folder, file), room)
    return rooms, owner


def public_closure(rooms, names):
    """The rooms among `names`, and all that they link PUBLIC."""
    seen, open_ends = set(), [name for name in names if name in rooms]
    while open_ends:
        name = open_ends.pop()
        if name not in seen:
            seen.add(name)
            open_ends += [other for other in rooms[name].public if other in rooms]
    return seen


def find_circle(rooms):
    """A list of rooms that lead back to the first, or None."""
    done, path = set(), []

    def visit(name):
        if name in path:
            return path[path.index(name):] + [name]
        if name in done or name not in rooms:
            return None
        path.append(name)
        for other in rooms[name].public + rooms[name].private:
            if circle := visit(other):
                return circle
        path.pop()
        done.add(name)
        return None

    return next((circle for name in rooms if (circle := visit(name))), None)


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    rooms, owner = find_rooms(sys.argv[1], root)
    faults = []
    if circle := find_circle(rooms):
        faults.append("These rooms form a circle: " + " → ".join(circle))
    for top in ("kernels", "engine", "ui"):
        for folder, _, files in os.walk(os.path.join(root, top)):
            for file in files:
                path = os.path.relpath(os.path.join(folder, file), root)
                if file.endswith(SOURCE_ENDINGS) and path not in owner:
                    faults.append(f"{path} belongs to no room")
    for file, room in sorted(owner.items()):
        is_header = not file.endswith(".cpp")
        arrows = room.public if is_header else room.public + room.private
        allowed = public_closure(rooms, arrows) | {room.name}
        for included in INCLUDE.findall(read(os.path.join(root, file))):
            if included.endswith(".moc"):
                continue
            target = owner.get(included)
            if not target:
                faults.append(f'{file} includes "{included}", which is in no room')
            elif target.name not in allowed:
                kind = "PUBLIC" if is_header else "PUBLIC or PRIVATE"
                faults.append(f'{file} includes "{included}": {room.name} has no {kind} arrow to {target.name}')
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
