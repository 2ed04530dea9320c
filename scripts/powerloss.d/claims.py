"""What was told outside: each worker's lines as pairs of call and answer."""
import collections
import hashlib
import json

OK, DONE, ALREADY = 0, 3, 5


def target_id(target):
    return hashlib.sha256(f"target:{target}".encode()).hexdigest()


class Told:
    """All that workers announced and were answered, over all boots of one disk."""

    def __init__(self):
        self.work = {}  # id -> greatest (fence, rank, version) answered OK, and its call
        self.claims = collections.defaultdict(dict)  # id -> fence -> (token, boot)
        self.names = {}
        self.begun = collections.defaultdict(set)  # (id, fence) -> calls announced
        self.open_claims = collections.defaultdict(set)  # id -> owners of unanswered claims
        self.manifests = {}  # (id, fence) -> own number
        self.done_ids = {}  # id -> the call that was answered DONE, ALREADY or OK
        self.done_count = 0
        self.targets = {}  # target -> greatest (fence, updated) answered OK
        self.groups = {}  # fence, owner -> (targets, token)
        self.group_claims = collections.defaultdict(dict)  # target -> fence -> boot
        self.open_targets = collections.defaultdict(list)  # target -> unanswered group calls
        self.merged = {}  # bits that the answers OK cover
        self.offered = {}  # bits that were announced
        self.credited = {}  # bits credited one by one
        self.twice = []
        self.credit = [0, 0]  # bits credited by count: merges, commits
        self.files = []  # (content, name, outcome, call) answered OK
        self.contents = {}  # digest -> edges of every content ever announced
        self.calls = collections.Counter()  # calls answered OK
        self.open = 0
        self.faults = []

    def read(self, paths):
        for path in paths:
            self.one_log(path)

    def one_log(self, path):
        boot, who = path.name.split(".")[:2]
        groups = {}
        begun = None
        text = path.read_bytes()
        for raw in text[: text.rfind(b"\n") + 1].splitlines():
            line = json.loads(raw)
            if "fatal" in line:
                self.faults.append(f"boot {boot} {who}: {line['fatal']}: {line['why']}")
            elif "begin" in line:
                begun = line
                self.announce(line)
            elif "end" in line:
                self.answer(begun, line, int(boot), groups)
                begun = None
        if begun:
            self.open += 1
            self.unanswered(begun, groups)

    def announce(self, line):
        call = line["begin"]
        if call == "claim":
            self.names[line["id"]] = line["name"]
        elif call in ("begin_commit", "complete", "commit"):
            self.begun[line["id"], line["fence"]].add(call)
        if call == "begin_commit":
            self.manifests[line["id"], line["fence"]] = line["own"]
        for edges in [line["edges"]] if call == "merge" else line.get("lists", []):
            add(self.offered, edges)
        if call == "commit":
            for result in line["results"]:
                digest = hashlib.sha256(result["content"].encode()).hexdigest()
                add(self.contents.setdefault(digest, {}), result["edges"])

    def unanswered(self, line, groups):
        call = line["begin"]
        if call == "claim":
            self.open_claims[line["id"]].add(line["owner"])
        elif call == "group_claim":
            for target in set(line["targets"]):
                self.open_targets[target].append((call, line["owner"]))
        elif call in ("group_heartbeat", "group_release"):
            for target in groups.get(line["fence"], ()):
                self.open_targets[target].append((call, line["fence"]))
        elif call == "heartbeat_many":
            for fence in line["groups"]:
                for target in groups.get(fence, ()):
                    self.open_targets[target].append(("group_heartbeat", fence))

    def raise_work(self, work_id, key, call):
        if work_id not in self.work or key > self.work[work_id][0]:
            self.work[work_id] = (key, call)

    def answer(self, begun, line, boot, groups):
        call, status = line["end"], line["status"]
        if status == DONE and call in ("claim", "commit") or status == ALREADY:
            # Somebody else may have written it: still no power cut may take it back.
            self.done_ids.setdefault(begun["id"], f"{call} answered {status} in boot {boot}")
        if status != OK:
            return
        self.calls[call] += 1
        getattr(self, call)(begun, line, boot, groups)

    def claim(self, begun, line, boot, groups):
        work_id, fence = begun["id"], line["fence"]
        for older, (_, then) in self.claims[work_id].items():
            if older == fence or (older > fence and then < boot):
                self.faults.append(f"work {work_id}: fence {fence} in boot {boot}, {older} in boot {then}")
        self.claims[work_id][fence] = (line["token"], boot)
        self.raise_work(work_id, (fence, 0, line["version"]), "claim")

    def heartbeat(self, begun, line, boot, groups):
        rank = 1 if "begin_commit" in self.begun[begun["id"], begun["fence"]] else 0
        if line["version"]:
            self.raise_work(begun["id"], (begun["fence"], rank, line["version"]), "heartbeat")

    def heartbeat_many(self, begun, line, boot, groups):
        for (work_id, fence), (status, version) in zip(begun["leases"], line["leases"]):
            if status == OK:
                self.heartbeat({"id": work_id, "fence": fence}, {"version": version}, boot, groups)
        for fence, (status, updated) in zip(begun["groups"], line["groups"]):
            if status == OK:
                self.group_heartbeat({"fence": fence}, {"updated": updated}, boot, groups)

    def abandon(self, begun, line, boot, groups):
        self.raise_work(begun["id"], (begun["fence"], 1, 0), "abandon")

    def begin_commit(self, begun, line, boot, groups):
        self.raise_work(begun["id"], (begun["fence"], 1, line["version"]), "begin_commit")

    def finished(self, begun, call):
        self.raise_work(begun["id"], (begun["fence"], 2, 0), call)
        self.done_count += 1

    def complete(self, begun, line, boot, groups):
        self.finished(begun, "complete")

    def replay(self, begun, line, boot, groups):
        self.finished(begun, "replay")

    def replay_commits(self, begun, line, boot, groups):
        self.done_count += line["replayed"]

    def commit(self, begun, line, boot, groups):
        self.finished(begun, "commit")
        for result, (outcome, status, novel) in zip(begun["results"], line["results"]):
            add(self.merged, result["edges"])
            self.credit[1] += novel
            self.files.append((result["content"], result["name"], outcome, f"commit of {begun['id']}"))
            if status < 0:
                self.faults.append(f"commit of {begun['id']}: a result answered {status}")

    def group_claim(self, begun, line, boot, groups):
        fence, targets = line["fence"], sorted(set(begun["targets"]))
        groups[fence] = targets
        self.groups[fence, line["token"]] = targets
        for target in targets:
            for older, then in self.group_claims[target].items():
                if older == fence or (older > fence and then < boot):
                    self.faults.append(f"target {target}: fence {fence} in boot {boot}, {older} in boot {then}")
            self.group_claims[target][fence] = boot
            self.raise_target(target, (fence, line["updated"]))

    def raise_target(self, target, key):
        self.targets[target] = max(self.targets.get(target, (0, 0.0)), key)

    def group_heartbeat(self, begun, line, boot, groups):
        for target in groups[begun["fence"]]:
            self.raise_target(target, (begun["fence"], line["updated"]))

    def group_release(self, begun, line, boot, groups):
        for target in groups[begun["fence"]]:
            self.raise_target(target, (begun["fence"], float("inf")))

    def merge(self, begun, line, boot, groups):
        add(self.merged, begun["edges"])
        self.credit[0] += line["novel"]

    def merge_many(self, begun, line, boot, groups):
        for edges in begun["lists"]:
            add(self.merged, edges)
        self.credit[0] += sum(line["novel"])
        for _, edges in line["credited"]:
            for index, bits in edges:
                if self.credited.get(index, 0) & bits:
                    self.faults.append(f"coverage index {index}: bits {bits} credited twice")
                add(self.credited, [[index, bits]])


def add(bits, edges):
    for index, mask in edges:
        bits[index] = bits.get(index, 0) | mask


def count(bits):
    return sum(mask.bit_count() for mask in bits.values())
