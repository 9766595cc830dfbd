"""What a program does with Kubernetes' client for Python: see python.rs."""

import sys

import urllib3
from kubernetes import client, watch
from kubernetes.client.rest import ApiException


def ask(word):
    """Has the test do something, and waits until it is done."""
    print(word, flush=True)
    assert sys.stdin.readline() == "ok\n"


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


def objects(api):
    made = api.create_namespaced_config_map("default", config_map("a", k="v"))
    assert made.metadata.uid and made.metadata.creation_timestamp
    assert api.read_namespaced_config_map("a", "default").data == {"k": "v"}
    patched = api.patch_namespaced_config_map("a", "default", {"data": {"l": "w"}})
    assert patched.data == {"k": "v", "l": "w"}
    made.data = {"k": "stale"}
    try:
        api.replace_namespaced_config_map("a", "default", made)
        raise AssertionError("a stale object is taken")
    except ApiException as error:
        assert error.status == 409 and error.reason == "Conflict"
    for n in range(5):
        api.create_namespaced_config_map("default", config_map(f"m{n}"))
    first = api.list_namespaced_config_map("default", limit=4)
    assert len(first.items) == 4
    rest = api.list_namespaced_config_map("default", limit=4, _continue=first.metadata._continue)
    assert [item.metadata.name for item in rest.items] == ["m3", "m4"]
    labelled = api.list_config_map_for_all_namespaces(label_selector="app in (web)")
    assert labelled.items == []
    pod = client.V1Pod(
        metadata=client.V1ObjectMeta(generate_name="p-", labels={"app": "web"}),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="i")]),
    )
    name = api.create_namespaced_pod("default", pod).metadata.name
    api.patch_namespaced_pod_status(name, "default", {"status": {"phase": "Running"}})
    running = api.list_namespaced_pod("default", field_selector="status.phase=Running")
    assert [item.metadata.name for item in running.items] == [name]
    api.delete_namespaced_pod(name, "default")
    api.delete_namespaced_config_map("a", "default")
    try:
        api.read_namespaced_config_map("a", "default")
        raise AssertionError("it is still there")
    except ApiException as error:
        assert error.status == 404
    api.delete_collection_namespaced_config_map("default")
    assert api.list_namespaced_config_map("default").items == []
    version = client.VersionApi(api.api_client).get_code()
    assert "listwatch" in version.git_version


class Copy:
    """Names, kept by listing once and watching on."""

    def __init__(self, api):
        self.api = api
        self.names = set()
        self.version = None
        self.lists = 0

    def list(self):
        listed = self.api.list_namespaced_config_map("default")
        self.names = {item.metadata.name for item in listed.items}
        self.version = listed.metadata.resource_version
        self.lists += 1

    def follow(self, until, at_first=None):
        """Watches until the names are these. `at_first`: done at the first event."""
        while self.names != until:
            if self.version is None:
                self.list()
                continue
            try:
                stream = watch.Watch().stream(
                    self.api.list_namespaced_config_map,
                    "default",
                    resource_version=self.version,
                    timeout_seconds=30,
                )
                for event in stream:
                    self.take(event)
                    if at_first:
                        at_first, now = None, at_first
                        now()
                    if self.names == until:
                        return
            except urllib3.exceptions.HTTPError:
                pass  # It broke off: on from what there is.
            except ApiException as error:
                assert error.status == 410, error
                self.version = None

    def take(self, event):
        metadata = event["object"].metadata
        self.version = metadata.resource_version
        if event["type"] == "DELETED":
            self.names.discard(metadata.name)
        elif event["type"] in ("ADDED", "MODIFIED"):
            self.names.add(metadata.name)


def broken_connection(api):
    api.create_namespaced_config_map("default", config_map("a"))
    copy = Copy(api)
    copy.list()
    api.create_namespaced_config_map("default", config_map("b"))

    def breaks():
        ask("cut")
        api.create_namespaced_config_map("default", config_map("c"))
        api.delete_namespaced_config_map("a", "default")

    copy.follow({"b", "c"}, at_first=breaks)
    assert copy.lists == 1


def expired(api):
    api.create_namespaced_config_map("default", config_map("a"))
    copy = Copy(api)
    copy.list()
    api.delete_namespaced_config_map("a", "default")
    api.create_namespaced_config_map("default", config_map("b"))
    api.create_namespaced_config_map("default", config_map("c"))
    ask("compact")
    copy.follow({"b", "c"})
    assert copy.lists == 2, copy.lists


def main():
    address, task = sys.argv[1:]
    configuration = client.Configuration()
    configuration.host = address
    # A connection that was cut is made anew; what was sent is not sent again.
    configuration.retries = urllib3.Retry(connect=3, read=0, other=3)
    with client.ApiClient(configuration) as connection:
        globals()[task](client.CoreV1Api(connection))
    print("done", flush=True)


main()
