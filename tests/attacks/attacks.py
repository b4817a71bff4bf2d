"""The table of attacks: what a learner's cell may try, by kind, and what must hold afterwards.

Of every attack: no point is gained beyond what its honest part earns, nothing is read or written outside, whoever hands
in next is graded, an outcome is recorded, and its message is one line that is fair to somebody who did it by accident.
Cells print `GOT THROUGH` where they succeed in what they must not. `{outside}` is a folder outside the sandbox in which
`secret` lies; `{port}` is a port of this machine on which somebody listens, `{name}` an abstract socket likewise.

What attacks the taking in, the pages, single system calls and the processes that run graphs is in the files beside this
one.
"""

# ruff: noqa: E501
# A line of an attack is read more easily when it is not broken.

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["forging", "reading", "writing", "escaping", "exhausting", "breaking"]

NUMBERS, GRAPH, BUILD, CLOCK, ENGINES, TRIP, FOLD, COSTS = (
    "conv_output_shape",
    "run_graph",
    "build_mlp",
    "measure_compile_cost",
    "choose_engine",
    "round_trip",
    "fold_batchnorm",
    "layer_costs",
)


@dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
        kind: what it is after.
        name: in a few words.
        source: of the answer cell; with `honest`, of what comes before a right answer in it.
        task: which task it answers.
        honest: whether a right answer follows, which must earn its points.
        status: the statuses that are fair, where it is not honest; empty for any but `passed`.
        told: what the message must say somewhere.
        seconds: time limit, where reaching it is the point.
    """

    kind: Kind
    name: str
    source: str
    task: str = NUMBERS
    honest: bool = False
    status: tuple[str, ...] = ()
    told: str = ""
    seconds: float = 60.0


ASK = "def conv_output_shape(shape, out, kernel, stride, padding, dilation):\n"
"""The head of an answer that tries to have PyTorch compute the shape."""

BY_TORCH = (
    "    x, w = torch.empty(shape, device='meta'), torch.empty(out, shape[1], *kernel, device='meta')\n"
    "    return tuple(torch.nn.functional.conv2d(x, w, None, stride, padding, dilation).shape)\n"
)

FRAME = (
    "import sys\ndef probes_frame():\n    frame = sys._getframe()\n"
    "    while frame.f_code.co_name != 'probe': frame = frame.f_back\n    return frame\n"
)

SEND = (
    "import gc\nfrom autograder.exchange.channel import Channel\n"
    "channel = next(item for item in gc.get_objects() if type(item) is Channel and item._socket.fileno() > 0)\n"
)

VISIBLE = "import autograder.exercises.day0.conv_output_shape.visible as visible\n"

WRONG = "def conv_output_shape(*arguments): return (1, 2, 3, 4)\n"

PAIRS = "{'shapes': [[2, 8, 32, 32], [2, 16, 16, 16], [1, 4, 16, 16], [1, 6, 11, 11]], 'torch_calls': []}"
"""What is right for the first visible case."""


def asked(how: str) -> str:
    """An answer that gets hold of PyTorch in some way and asks it."""
    return f"{how}\n{ASK}{BY_TORCH}"


def looked(what: str) -> str:
    """Code that tries an expression and tells when there was something to be had."""
    return f"import os, glob, subprocess, socket, sys\ntry:\n    got = {what}\nexcept Exception: got = None\nif got: print('GOT THROUGH', got)"


def did(what: str) -> str:
    """Code that tries statements and tells when they went through."""
    body = "\n".join(f"    {line}" for line in what.splitlines())
    return f"import ctypes, os, shutil, signal, socket, subprocess, sys\ntry:\n{body}\n    print('GOT THROUGH')\nexcept Exception: pass"


def _forging() -> list[Attack]:
    numbers = {
        "imports torch": "import torch",
        "imports torch past what stands in for it": (
            "import sys\nfor name in [n for n in sys.modules if n.partition('.')[0] == 'torch']: del sys.modules[name]\n"
            "sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != 'Finder']\n"
            "sys.path[:] = [p for p in sys.path if p != '/view']\nimport torch"
        ),
        "loads torch from its folder": (
            "import glob, importlib.util, sys\n"
            "paths = [p for d in sys.path for p in glob.glob(d + '/torch/__init__.py') if d != '/view']\n"
            "spec = importlib.util.spec_from_file_location('torch', paths[0])\n"
            "torch = importlib.util.module_from_spec(spec)\nsys.modules['torch'] = torch\nspec.loader.exec_module(torch)"
        ),
        "finds torch in memory": (
            "import gc, types\n"
            "torch = next(m for m in gc.get_objects() if isinstance(m, types.ModuleType) and hasattr(m, '_C') "
            "and m.__name__ == 'torch')"
        ),
        "loads its library": "import ctypes\ntorch = ctypes.CDLL('libtorch_cpu.so')",
        "takes another Python's": (
            "import sys\nsys.path += ['/usr/lib/python3/dist-packages', '/usr/local/lib/python3/site-packages']\n"
            "sys.modules.pop('torch', None)\nsys.path.remove('/view')\nimport torch"
        ),
    }
    found = [Attack("forging", name, asked(how)) for name, how in numbers.items()]
    process = (
        "import subprocess, sys\n" + ASK + "    code = f'import torch; x = torch.empty({shape}); print(x.shape)'\n"
        "    done = subprocess.run([sys.executable, '-I', '-c', code], capture_output=True, text=True)\n"
        "    return eval(done.stdout)\n"
    )
    believed = "class Yes(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
    forged = {
        "asks in another process": process,
        "replaces the probe's code": (
            WRONG + VISIBLE + "def probe(case, answer):\n    from autograder.exchange.evidence import Evidence\n"
            f"    return Evidence({PAIRS})\nvisible.probe.__code__ = probe.__code__"
        ),
        "replaces Evidence": WRONG
        + VISIBLE
        + f"real = visible.Evidence\nvisible.Evidence = lambda values: real({PAIRS})",
        "replaces what asks": WRONG + VISIBLE + "visible.ask = lambda *a: [2, 8, 32, 32]",
        "sends evidence itself": WRONG + SEND + f"channel.send({{'values': {PAIRS}, 'graphs': {{}}}})",
        "says that nothing is missing": SEND + "for _ in range(4): channel.send({'missing': []})\n" + WRONG,
        "says that it passed": SEND + "channel.send({'status': 'passed', 'points': 100, 'findings': []})\n" + WRONG,
        "answers from a thread": (
            WRONG + SEND + "import threading\n"
            f"def send():\n    for _ in range(9): channel.send({{'values': {PAIRS}, 'graphs': {{}}}})\n"
            "threading.Timer(0.05, send).start()"
        ),
        "writes into the probe's frame": (
            FRAME + "def conv_output_shape(*arguments):\n"
            "    probes_frame().f_locals['shapes'] += [[2, 8, 32, 32]]\n    return (1, 1, 1, 1)\n"
        ),
        "changes the case": (
            FRAME + "def conv_output_shape(*arguments):\n"
            "    case = probes_frame().f_locals['case']\n    case.parameters['convolutions'].clear()\n    return (1, 1, 1, 1)\n"
        ),
        "gives numbers that equal every number": believed
        + "def conv_output_shape(*a): return tuple(Yes(n) for n in range(4))",
        "gives a list that equals every list": (
            "class Yes(list):\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n"
            "def conv_output_shape(*a): return Yes([1, 2, 3, 4])"
        ),
        "patches json": (
            WRONG + "import json\nreal = json.dumps\n"
            f"json.dumps = lambda value, **o: real({{**value, 'values': {PAIRS}}} if 'values' in value else value, **o)"
        ),
        "patches isinstance and int": WRONG
        + "import builtins\nbuiltins.isinstance = lambda *a: True\nbuiltins.int = lambda n: 8",
        "returns for the probe by a trace function": (
            WRONG
            + "import sys\ndef watch(frame, event, value):\n    if frame.f_code.co_name == 'probe': frame.f_trace_opcodes = True\n"
            "    return watch\nsys.settrace(watch)"
        ),
        "knows the visible cases by heart": (
            "known = {(2, 3, 32, 32): (2, 8, 32, 32), (2, 8, 32, 32): (2, 16, 16, 16), (1, 16, 16, 16): (1, 4, 16, 16), "
            "(1, 4, 15, 15): (1, 6, 11, 11), (4, 3, 20, 33): (4, 5, 10, 11), (1, 6, 41, 18): (1, 2, 11, 24)}\n"
            "def conv_output_shape(shape, *rest): return known[tuple(shape)]"
        ),
        "asks the judge's module": (
            "from autograder.exercises.day0.conv_output_shape.judge import shape_of\ndef conv_output_shape(*a): return shape_of(a)"
        ),
        "asks the reference": "from autograder.exercises.day0.conv_output_shape.reference import conv_output_shape",
        "takes the answer from the solutions": (
            "import glob\nexec(open(glob.glob('/[hrstvw]*/**/ex_00_shapes_and_graphs.py', recursive=True)[0]).read())"
        ),
        "ends the process after sending": WRONG + SEND + f"import os\nchannel.send({{'values': {PAIRS}}}); os._exit(0)",
        "takes the process's own files": (
            WRONG + "import os\nfor number in range(3, 64):\n"
            "    try: os.write(number, b'\\x00' * 7 + b'\\x02' + b'\\x00' * 8 + b'{}')\n    except OSError: pass"
        ),
    }
    found += [Attack("forging", name, source) for name, source in forged.items()]
    run = "def run_graph(graph_module, *inputs):\n"
    graphs = {
        "interpreter by its module": "from torch.fx.interpreter import Interpreter\n"
        + run
        + "    return Interpreter(graph_module).run(*inputs)",
        "interpreter by its package": "from torch import fx\n"
        + run
        + "    return fx.Interpreter(graph_module).run(*inputs)",
        "a relative of the interpreter": (
            "from torch.fx.passes.shape_prop import ShapeProp\n"
            + run
            + "    return ShapeProp(graph_module).run(*inputs)"
        ),
        "interpreter whose watch is taken off": (
            "from unittest.mock import patch\nimport torch.fx as fx\nsaved = fx.Interpreter.run\n"
            + run
            + "    with patch.object(fx.Interpreter, 'run', saved): return fx.Interpreter(graph_module).run(*inputs)"
        ),
        "interpreter from its file": (
            "import torch, os\npath = os.path.join(os.path.dirname(torch.__file__), 'fx', 'interpreter.py')\n"
            "names = {'__name__': 'torch.fx.own', '__package__': 'torch.fx'}\nexec(compile(open(path).read(), 'own', 'exec'), names)\n"
            + run
            + "    return names['Interpreter'](graph_module).run(*inputs)"
        ),
        "interpreter from its compiled file": (
            "import glob, importlib.machinery, importlib.util, os, torch\n"
            "[path] = glob.glob(os.path.dirname(torch.__file__) + '/fx/__pycache__/interpreter.*.pyc')\n"
            "loader = importlib.machinery.SourcelessFileLoader('torch.fx.own', path)\n"
            "own = importlib.util.module_from_spec(importlib.util.spec_from_loader('torch.fx.own', loader))\nloader.exec_module(own)\n"
            + run
            + "    return own.Interpreter(graph_module).run(*inputs)"
        ),
        "the module's stale code": run + "    return graph_module(*inputs)",
        "the module's code, written anew": run + "    graph_module.recompile()\n    return graph_module(*inputs)",
        "another module of the graph": (
            "from torch import fx\n" + run + "    return fx.GraphModule(graph_module, graph_module.graph)(*inputs)"
        ),
    }
    found += [Attack("forging", name, source, GRAPH) for name, source in graphs.items()]
    whole = "nn.Sequential(first, nn.ReLU(), second)"
    build = "import torch\nfrom torch import fx, nn\ndef build_mlp(first, second):\n"
    traced = {
        "symbolic_trace": f"    return fx.symbolic_trace({whole})",
        "a tracer of one's own": f"    root = {whole}\n    return fx.GraphModule(root, type('Own', (fx.Tracer,), {{}})().trace(root))",
        "make_fx": (
            "    from torch.fx.experimental.proxy_tensor import make_fx\n"
            f"    return make_fx({whole})(torch.ones(2, first.in_features))"
        ),
        "export": f"    return torch.export.export({whole}, (torch.ones(2, first.in_features),)).module()",
        "Dynamo": (
            "    kept = []\n    def keep(graph_module, inputs):\n        kept.append(graph_module)\n        return graph_module\n"
            f"    torch.compile({whole}, backend=keep)(torch.ones(2, first.in_features))\n    return kept[0]"
        ),
        "copies of the layers": (
            "    import copy\n    graph = fx.Graph()\n    x = graph.call_module('first', (graph.placeholder('x'),))\n"
            "    x = graph.call_function(torch.relu, (x,))\n    graph.output(graph.call_module('second', (x,)))\n"
            "    return fx.GraphModule({'first': copy.deepcopy(first), 'second': copy.deepcopy(second)}, graph)"
        ),
    }
    found += [Attack("forging", f"traced by {name}", build + body, BUILD) for name, body in traced.items()]
    measured = "import math\ndef break_even_calls(c, e, k): return c / (e - k) if e > k else math.inf\n"
    clocks = {
        "reads the script": (
            "def measure(function, clock, synchronize, warmup, repeats):\n"
            "    import gc\n    device = next(d for d in gc.get_objects() if type(d).__name__ == 'ScriptedDevice')\n"
            "    return {'compile_seconds': device._compile_seconds, 'median_seconds': device._run_seconds[-1], 'spread_seconds': 0.0}"
        ),
        "writes calls that never were": (
            FRAME + "def measure(function, clock, synchronize, warmup, repeats):\n"
            "    seen = probes_frame().f_locals['seen']\n    seen += ['call'] * (1 + warmup + repeats)\n"
            "    return {'compile_seconds': 8.501, 'median_seconds': 0.105, 'spread_seconds': 0.006}"
        ),
        "asks the clock alone": (
            "def measure(function, clock, synchronize, warmup, repeats):\n    seconds = [clock() for _ in range(9)]\n"
            "    return {'compile_seconds': 8.501, 'median_seconds': 0.105, 'spread_seconds': 0.006}"
        ),
        "asks what no instrument knows": SEND
        + (
            "def measure(function, clock, synchronize, warmup, repeats):\n"
            "    channel.send({'asked': {'script': True}})\n    return channel.receive().header"
        ),
    }
    found += [Attack("forging", name, measured + source, CLOCK) for name, source in clocks.items()]
    engines = {
        "reads the engines' script and writes down calls that never were": (
            FRAME + "def choose_engine(engines, example, others, clock, rounds):\n"
            "    from autograder.exercises.day5.choose_engine.visible import ScriptedEngines\n    import statistics\n"
            "    frame = probes_frame()\n    given = {**frame.f_locals['case'].kept, **frame.f_locals['case'].parameters}\n"
            "    copy = ScriptedEngines(given['script'], given['weather'])\n"
            "    right = [n for n, row in given['script'].items() if row['kind'] == 'right']\n"
            "    spent = {n: [] for n in right}\n    [copy.play(n) for n in right]\n"
            "    for turn in range(rounds):\n        for n in right:\n"
            "            start = copy.clock()\n            copy.play(n)\n            spent[n].append(copy.clock() - start)\n"
            "    ratios = {n: [a / b for a, b in zip(spent['eager'], spent[n])] for n in right}\n"
            "    speed_up = {n: statistics.median(r) for n, r in ratios.items()}\n"
            "    worth = [n for n, r in ratios.items() if 4 * sum(q > 1 for q in r) >= 3 * rounds]\n"
            "    for own in (frame.f_locals['machine'], frame.f_locals):\n"
            "        record = own.get('seen') if isinstance(own, dict) else getattr(own, 'events', None)\n"
            "        if record is not None: record[:] = getattr(copy, 'record', None) or copy.events\n"
            "    taken = max(worth, key=speed_up.get, default='eager')\n"
            "    return {'taken': taken, 'refused': [n for n in engines if n not in right], 'speed_up': speed_up}"
        ),
        "hands over an engine's list that is none": (
            "def choose_engine(engines, example, others, clock, rounds):\n    return engines['eager']([float('inf')] * 3)"
        ),
    }
    found += [Attack("forging", name, source, ENGINES) for name, source in engines.items()]
    loader = "def make_loader(): return LOADER\n"
    trips = {
        "saves the answers": (
            "import torch\ndef save_model(model, example, path): torch.save(model(example).detach(), path)\n"
            "LOADER = 'import sys, torch; a, b, c = sys.argv[1:]; torch.save([torch.load(a) for x in torch.load(b)], c)'\n"
        ),
        "leaves a process behind that knows the model": (
            "import os, socket, torch, io\ndef save_model(model, example, path):\n    open(path, 'wb').write(b'x')\n"
            "    if os.fork() == 0:\n        os.setsid()\n        s = socket.socket(socket.AF_UNIX)\n"
            "        s.bind('/tmp/helper')\n        s.listen()\n        while True:\n            c, _ = s.accept()\n"
            "            x = torch.load(io.BytesIO(c.recv(1 << 20)))\n            b = io.BytesIO()\n"
            "            torch.save([model(v).detach() for v in x], b)\n            c.sendall(b.getvalue())\n            c.close()\n"
            "LOADER = '''\nimport sys, socket, shutil\ns = socket.socket(socket.AF_UNIX)\ns.connect('/tmp/helper')\n"
            "s.sendall(open(sys.argv[2], 'rb').read())\nopen(sys.argv[3], 'wb').write(s.recv(1 << 20))\n'''\n"
        ),
        "says that the trip is over": (
            "import torch\n" + SEND + "def save_model(model, example, path):\n"
            "    channel.send({'values': {'stage': 'done', 'count': 4}, 'graphs': {}})\nLOADER = 'pass'\n"
        ),
    }
    found += [Attack("forging", name, source + loader, TRIP) for name, source in trips.items()]
    fold = "import torch\nfrom torch import fx, nn\ndef fold_batchnorm(graph_module): return graph_module\n"
    found.append(
        Attack(
            "forging",
            "a re-exported function whose module is withheld",
            fold + "def folded_weights(weight, bias, mean, variance, gamma, beta, eps):\n"
            "    return torch.nn.utils.fuse_conv_bn_weights(weight, bias, mean, variance, eps, gamma, beta)",
            FOLD,
            told="write your own",
        )
    )
    return found


def _reading() -> list[Attack]:
    looks = {
        "a file outside": "open('{outside}/secret').read()",
        "the folder outside": "os.listdir('{outside}')",
        "through the root of process 1": "open('/proc/1/root{outside}/secret').read()",
        "through its own root": "open('/proc/self/root{outside}/secret').read()",
        "through a folder that it holds open": "[os.readlink(f'/proc/self/fd/{{n}}') for n in os.listdir('/proc/self/fd') if os.path.isdir(f'/proc/self/fd/{{n}}') and 'proc' not in os.readlink(f'/proc/self/fd/{{n}}')]",
        "by way up from here": "open('../../../../../../../..{outside}/secret').read()",
        "through a link": "(os.symlink('{outside}/secret', '/tmp/link'), open('/tmp/link').read())[1]",
        "through a hard link": "(os.link('{outside}/secret', '/tmp/hard'), open('/tmp/hard').read())[1]",
        "by another program": "subprocess.run(['cat', '{outside}/secret'], capture_output=True, check=True).stdout",
        "the variables of process 1": "open('/proc/1/environ').read()",
        "variables that name the course": "[name for name in os.environ if name in ('FXOPT_SEED', 'FXOPT_ROOT', 'FXOPT_DATABASE')]",
        "variables of any process": "[p for p in os.listdir('/proc') if p.isdigit() and b'FXOPT_SEED' in open(f'/proc/{{p}}/environ', 'rb').read()]",
        "judges": "glob.glob('/[hrtvw]*/**/judge.py', recursive=True)",
        "solutions": "[p for end in ('ipynb', 'py') for p in glob.glob(f'/[hrtvw]*/**/ex_0*.{{end}}', recursive=True)]",
        "a gradebook": "glob.glob('/[hrtvw]*/**/gradebook.db', recursive=True)",
        "passwords": "open('/etc/shadow').read()",
        "keys of whoever grades": "os.listdir(os.path.expanduser('~/.ssh')) or os.listdir('/root')",
        "processes of this machine": "[p for p in os.listdir('/proc') if p.isdigit() and int(p) > 2000]",
        "a service of this machine": "socket.create_connection(('127.0.0.1', {port}), 2)",
        "a socket without a file": "(lambda s: (s.connect('\\0{name}'), True)[1])(socket.socket(socket.AF_UNIX))",
        "the network": "socket.create_connection(('192.0.2.1', 80), 1)",
        "names of the network": "socket.getaddrinfo('example.org', 80)",
        "interfaces of the network": "[name for _, name in socket.if_nameindex() if name != 'lo']",
        "shared memory of others": "os.listdir('/dev/shm')",
        "disks": "[n for n in os.listdir('/dev') if n.startswith(('sd', 'vd', 'nvme', 'mem', 'kmsg'))]",
        "messages of the kernel": "open('/dev/kmsg').read(1)",
        "memory of the kernel": "open('/proc/kcore', 'rb').read(4)",
        "memory of process 1": "open('/proc/1/mem', 'rb').read(1)",
    }
    return [Attack("reading", name, looked(what), honest=True) for name, what in looks.items()]


def _writing() -> list[Attack]:
    writes = {
        "a file outside": "open('{outside}/new', 'w').write('x')",
        "over a file outside": "open('{outside}/secret', 'w').write('x')",
        "through a link": "os.symlink('{outside}', '/tmp/out')\nopen('/tmp/out/new', 'w').write('x')",
        "by removing": "os.unlink('{outside}/secret')",
        "by moving": "shutil.move('{outside}/secret', '/tmp/secret')",
        "rights of a file outside": "os.chmod('{outside}/secret', 0o777)",
        "the view": "open('/view/autograder/exchange/evidence.py', 'a').write('#')",
        "into the view": "open('/view/sitecustomize.py', 'w').write('#')",
        "installed packages": "import IPython\nopen(IPython.__file__, 'a').write('#')",
        "beside installed packages": "import IPython\nopen(os.path.dirname(os.path.dirname(IPython.__file__)) + '/own.pth', 'w').write('#')",
        "the interpreter": "open(os.path.realpath(sys.executable), 'ab').write(b'x')",
        "programs": "open('/usr/bin/own', 'w').write('#')",
        "settings of the kernel": "open('/proc/sys/kernel/core_pattern', 'w').write('|/tmp/own')",
        "settings of the network": "open('/proc/sys/net/ipv4/ip_forward', 'w').write('1')",
        "the killer's favour": "open('/proc/self/oom_score_adj', 'w').write('-1000')",
        "limits of a group": "open('/sys/fs/cgroup/cgroup.procs', 'w').write(str(os.getpid()))",
        "a device": "os.mknod('/tmp/disk', 0o60666, os.makedev(8, 0))\nopen('/tmp/disk', 'wb').write(b'x')",
        "the host's name": "socket.sethostname('owned')",
        "the clock": "import time\ntime.clock_settime(time.CLOCK_REALTIME, 0)",
        "by mounting over": "assert ctypes.CDLL(None).mount(b'none', b'/view', b'tmpfs', 0, None) == 0",
        "by making it writable": "assert ctypes.CDLL(None).mount(None, b'/', None, 0x20 | 0x1000, None) == 0",
        "another process's memory": "open('/proc/1/mem', 'wb').write(b'x')",
    }
    return [Attack("writing", name, did(what), honest=True) for name, what in writes.items()]


def _escaping() -> list[Attack]:
    ways = {
        "a new namespace": "assert ctypes.CDLL(None).unshare(0x10000000) == 0",
        "the namespaces of process 1": "fd = os.open('/proc/1/ns/mnt', os.O_RDONLY)\nassert ctypes.CDLL(None).setns(fd, 0) == 0",
        "another root": "os.chroot('/tmp')",
        "another user": "os.setuid(12345)",
        "groups": "os.setgroups([0, 1, 2])",
        "a program that gives rights": "assert subprocess.run(['su', '-c', 'true'], capture_output=True, stdin=subprocess.DEVNULL).returncode == 0",
        "rights over files": "os.chown('/tmp', 12345, 12345)",
        "tracing the process before": "assert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0",
        "open files of the process before": "os.listdir(f'/proc/{{os.getppid()}}/fd') and os.readlink(f'/proc/{{os.getppid()}}/fd/3')",
        "the root of the process before": "os.listdir(f'/proc/{{os.getppid()}}/root')",
        "limits that grow": "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))",
        "priority": "os.nice(-10)",
        "real time": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))",
        "locked memory": "assert ctypes.CDLL(None).mlockall(3) == 0",
        "raw packets": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "a socket to the kernel": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
        "a module of the kernel": "assert ctypes.CDLL(None).syscall(175, 0, 0, 0) == 0",
        "swap": "assert ctypes.CDLL(None).swapon(b'/tmp/x', 0) == 0",
        "a restart": "assert ctypes.CDLL(None).reboot(0x1234567) == 0",
        "terminals": "assert ctypes.CDLL(None).ioctl(0, 0x5412, b'x') == 0",
        "rights back again": "assert ctypes.CDLL(None).prctl(8, 1, 0, 0, 0) == 0 and ctypes.CDLL(None).prctl(47, 2, 21, 0, 0) == 0",
    }
    return [Attack("escaping", name, did(what), honest=True) for name, what in ways.items()]


def _exhausting() -> list[Attack]:
    def when_called(body: str) -> str:
        return "def conv_output_shape(*a):\n" + "\n".join(f"    {line}" for line in body.splitlines())

    limited = {
        "a loop": ("while True: pass", "time limit"),
        "a loop when called": (when_called("while True: pass"), "time limit"),
        "sleep": ("import time\ntime.sleep(99)", "time limit"),
        "printing": ("while True: print('x' * 1000)", "time limit"),
        "a number without end": ("10 ** 10 ** 9", "time limit"),
        "an expression that backtracks": ("import re\nre.match('(a+)+$', 'a' * 40 + 'b')", "time limit"),
        "a lock": ("import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()", "time limit"),
        "input that never comes": ("import os\nr, w = os.pipe()\nos.read(r, 1)", "time limit"),
        "a list without end": (when_called("import itertools\nreturn list(itertools.count())"), ""),
    }
    found = [
        Attack("exhausting", name, source, status=(status,) if status else (), seconds=1.5)
        for name, (source, status) in limited.items()
    ]
    more = {
        "memory": ("hog = []\nwhile True: hog.append(bytearray(b'x') * (1 << 24))", ("memory limit", "error")),
        "one large list": (when_called("return [0] * (1 << 34)"), ("wrong", "memory limit", "crashed")),
        "recursion": (when_called("return conv_output_shape(*a)"), ("wrong",)),
        "evidence that is too large": (when_called("return [1] * 4_000_000"), ("wrong", "time limit")),
        "evidence of one large number": (when_called("return [10 ** 5000, 1, 1, 1]"), ("wrong",)),
        "evidence that is nested": (when_called("x = []\nfor _ in range(100_000): x = [x]\nreturn x"), ("wrong",)),
        "a text of an exception": (when_called("raise ValueError('x' * 50_000_000)"), ("wrong",)),
        "a chain of exceptions": (
            when_called(
                "e = None\nfor n in range(30_000):\n    f = ValueError(n)\n    f.__cause__ = e\n    e = f\nraise e"
            ),
            ("wrong",),
        ),
    }
    found += [Attack("exhausting", name, source, status=status) for name, (source, status) in more.items()]
    harmless = {
        "output": "for _ in range(50): print('y' * 100_000)",
        "displays": "from IPython.display import HTML, display\nfor _ in range(300): display(HTML('z' * 20_000))",
        "open files": "held = []\ntry:\n    while True: held.append(open('/dev/null'))\nexcept OSError: held.clear()",
        "scratch space": (
            "import os\ntry:\n    with open('/tmp/fill', 'wb') as file:\n        while True: file.write(b'x' * (1 << 20))\n"
            "except OSError: os.unlink('/tmp/fill')"
        ),
        "small files": "import os\nfor n in range(3000): open(f'/tmp/{n}', 'w').close()",
        "threads": (
            "import threading, time\nthreads = []\ntry:\n    for _ in range(12):\n"
            "        threads.append(threading.Thread(target=time.sleep, args=(30,), daemon=True))\n        threads[-1].start()\n"
            "except RuntimeError: pass"
        ),
        "processes left behind": "import os, time\nfor _ in range(6):\n    if os.fork() == 0: time.sleep(60) or os._exit(0)",
        "a process that nobody owns": (
            "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(60)\n    os._exit(0)"
        ),
        "sockets": "import socket\npairs = []\ntry:\n    while True: pairs.append(socket.socketpair())\nexcept OSError: pairs.clear()",
    }
    found += [Attack("exhausting", name, source, honest=True) for name, source in harmless.items()]
    found.append(
        Attack(
            "exhausting",
            "questions without end",
            "def break_even_calls(*a): return 1.0\n"
            "def measure(function, clock, synchronize, warmup, repeats):\n    while True: clock()",
            CLOCK,
            status=("time limit",),
            told="did not finish",
        )
    )
    return found


def _breaking() -> list[Attack]:
    def returns(value: str) -> str:
        return f"def conv_output_shape(*a): return {value}"

    values = {
        "nothing": "None",
        "a text": "'1234'",
        "numbers that are none": "(1, 2, float('nan'), float('inf'))",
        "fractions": "(1, 2, 3.5, 4.0)",
        "truths": "(True, False, True, False)",
        "too few": "(1, 2)",
        "a generator": "(n for n in range(4))",
        "a set": "{1, 2, 3, 4}",
        "a dictionary": "{'shape': (1, 2, 3, 4)}",
        "itself": "conv_output_shape",
        "a list within itself": "(lambda x: (x.append(x), x)[1])([1])",
        "a coroutine": "__import__('asyncio').sleep(0)",
        "an array": "__import__('numpy').array([1, 2, 3, 4])",
        "negative numbers": "(-1, -2, -3, -4)",
    }
    found = [Attack("breaking", f"returns {name}", returns(value), status=("wrong",)) for name, value in values.items()]
    raised = {
        "SystemExit": "raise SystemExit(0)",
        "KeyboardInterrupt": "raise KeyboardInterrupt",
        "StopIteration": "raise StopIteration",
        "GeneratorExit": "raise GeneratorExit",
        "a group": "raise ExceptionGroup('several', [ValueError(1), KeyError(2)])",
        "what has no text": "class E(Exception):\n        def __str__(self): return 5\n    raise E",
        "what is no exception": "raise 5",
        "lone surrogates": "raise ValueError('\\ud800')",
        "control characters": "raise ValueError('\\x1b[2J\\r\\n\\x00')",
        "a script": "raise ValueError('<script>alert(1)</script>')",
        "NotImplementedError": "raise NotImplementedError",
    }
    found += [
        Attack(
            "breaking",
            f"raises {name}",
            f"def conv_output_shape(*a):\n    {line}",
            status=("wrong", "error", "not written"),
        )
        for name, line in raised.items()
    ]
    cells = {
        "a cell that is not Python": ("def conv_output_shape(:", ("error",)),
        "a cell with a null byte": ("x = 1\x00", ("error", "not written")),
        "an empty cell": ("", ("not written",)),
        "another name": ("def output_shape(*a): return (1, 2, 3, 4)", ("not written",)),
        "a name that is no function": ("conv_output_shape = 5", ("wrong",)),
        "a class": ("class conv_output_shape: pass", ("wrong",)),
        "the wrong number of arguments": ("def conv_output_shape(x): return x", ("wrong",)),
        "an async function": ("async def conv_output_shape(*a): return (1, 2, 3, 4)", ("wrong",)),
        "a question to the keyboard": ("n = input('shape? ')", ("error", "not written")),
        "exit()": ("exit()", ("not written", "error", "crashed")),
        "a crash": ("import ctypes\nctypes.string_at(0)", ("crashed",)),
        "an end without a word": ("import os\nos._exit(3)", ("crashed",)),
    }
    found += [Attack("breaking", name, source, status=status) for name, (source, status) in cells.items()]
    accidents = {
        "names of Python taken": "list = [1, 2]\nstr = 'text'\nlen = 3\nid = 7\nint_ = 5",
        "a star import": "from math import *",
        "a magic": "%timeit -n1 -r1 1 + 1",
        "a command": "!echo hello",
        "a cell of another language": "get_ipython().run_cell_magic('bash', '', 'echo hello')",
        "modules removed": "import sys\nfor name in ('json', 'random', 'math'): sys.modules.pop(name, None)",
        "variables of the process removed": "import os\nos.environ.clear()",
        "a folder that is gone": "import os\nos.makedirs('/tmp/gone')\nos.chdir('/tmp/gone')\nos.rmdir('/tmp/gone')",
        "output closed": "import sys\nsys.stdout.close()",
        "output replaced": "import sys\nsys.stdout = sys.stderr = None",
        "warnings as errors": "import warnings\nwarnings.simplefilter('error')",
        "little recursion": "import sys\nsys.setrecursionlimit(200)",
        "an own hook for exceptions": "import sys\nsys.excepthook = lambda *a: 1 / 0",
        "signals ignored": "import signal\nfor n in (1, 2, 10, 12, 15): signal.signal(n, signal.SIG_IGN)",
        "an alarm": "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nsignal.alarm(1)",
        "the shell reset": "get_ipython().reset(new_session=False)",
        "a loop of events": "import asyncio\nasyncio.new_event_loop().run_until_complete(asyncio.sleep(0))",
        "the collector off": "import gc\ngc.disable()\ngc.set_threshold(1)",
        "a thread that fails": "import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()",
        "an exit handler that fails": "import atexit\natexit.register(lambda: 1 / 0)",
        "files left over": "open('left.txt', 'w').write('x')\nopen('/tmp/left', 'w').write('x')",
        "a check inside the cell": "from autograder import check\ncheck.day0.conv_output_shape(print)",
        "a submission inside the cell": "from autograder import submit\ntry: submit('ex_00')\nexcept BaseException: pass",
    }
    found += [Attack("breaking", name, source, honest=True) for name, source in accidents.items()]
    torch_state = {
        "another default type": "import torch\ntorch.set_default_dtype(torch.float64)",
        "no gradients": "import torch\ntorch.set_grad_enabled(False)",
        "seeds": "import torch\ntorch.manual_seed(7)\ntorch.use_deterministic_algorithms(True)",
        "an own printing": "import torch\ntorch.set_printoptions(precision=1, threshold=1)",
    }
    found += [
        Attack("breaking", name, source, GRAPH, honest=name != "another default type")
        for name, source in torch_state.items()
    ]
    return found


ATTACKS = [*_forging(), *_reading(), *_writing(), *_escaping(), *_exhausting(), *_breaking()]
"""All of them."""
