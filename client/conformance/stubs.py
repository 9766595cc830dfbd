"""The modules of the .proto, made at start and put on the path."""

import sys
from pathlib import Path

PROTO = Path(__file__).resolve().parent.parent.parent / "proto"


def make(folder):
    from grpc_tools import protoc

    arguments = ["protoc", f"-I{PROTO}", f"--python_out={folder}", f"--grpc_python_out={folder}"]
    import grpc_tools

    arguments.insert(1, f"-I{Path(grpc_tools.__file__).parent / '_proto'}")
    if protoc.main(arguments + ["listwatch/v1/listwatch.proto"]) != 0:
        raise SystemExit("the .proto does not compile")
    sys.path.insert(0, str(folder))
