#!/usr/bin/env python3
"""Reads `cargo metadata` on stdin, prints a folder of one package's source:
crate.py PACKAGE FOLDER"""
import json
import pathlib
import sys

package, folder = sys.argv[1:]
for found in json.load(sys.stdin)["packages"]:
    if found["name"] == package:
        place = pathlib.Path(found["manifest_path"]).parent / folder
        if not place.is_dir():
            sys.exit(f"{package} {found['version']} has no {folder}")
        print(place)
        break
else:
    sys.exit(f"no package {package}")
