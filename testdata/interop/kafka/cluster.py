"""Kafka brokers on loopback and Kafka's own tools: for .ci/kafka-move and .ci/kafka-kraft."""
import os
import re
import signal
import subprocess
import time

from ensemble import free_ports, until, word

JAVA = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k"]
BEGAN = time.monotonic()
INSTALL = """. "$1/interop/lib/common.sh"; set -e
maven_libs kafka-tools "$2"
venv=$INTEROP_CACHE/venv
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import kazoo' 2>/dev/null || "$venv/bin/pip" install -q kazoo==2.11.0
echo "$venv/bin/python"
"""


def say(*a):
    print("[%6.1fs]" % (time.monotonic() - BEGAN), *a, flush=True)


def check(ok, what):
    say("ok  " if ok else "FAIL", what)
    if not ok:
        raise RuntimeError(what)


def install(shared):
    """The folder of Kafka's jars, and a Python that has kazoo."""
    pom = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pom.xml")
    return subprocess.run(["bash", "-c", INSTALL, "-", shared, pom], stdout=subprocess.PIPE, text=True, check=True).stdout.split()


class Cluster:
    """Brokers with generated ids, and the tools that speak to them."""

    def __init__(self, root, lib):
        self.root, self.lib, self.port = root, lib, free_ports(10)
        self.brokers, self.zookeeper, self.tools = {}, None, 0  # processes by number
        self.bootstrap = ",".join("127.0.0.1:%d" % (self.port + i) for i in (0, 1, 2))
        with open(os.path.join(root, "log4j.properties"), "w") as f:
            f.write("log4j.rootLogger=WARN,err\nlog4j.appender.err=org.apache.log4j.ConsoleAppender\nlog4j.appender.err.target=System.err\n"
                    "log4j.appender.err.layout=org.apache.log4j.PatternLayout\nlog4j.appender.err.layout.ConversionPattern=%d %p %c{1} %m%n\n")

    def java(self, main, *args):
        return JAVA + ["-Dlog4j.configuration=file:%s/log4j.properties" % self.root, "-cp", self.lib + "/*", main, *args]

    def launch(self, n, settings):
        """Starts broker number n with these settings besides those that all have."""
        cfg = os.path.join(self.root, "broker-%d.properties" % n)
        with open(cfg, "w") as f:
            f.write("listeners=PLAINTEXT://127.0.0.1:%d\nlog.dirs=%s/data-%d\nnum.network.threads=1\nnum.io.threads=2\nbackground.threads=2\n"
                    "offsets.topic.num.partitions=3\noffsets.topic.replication.factor=3\nmin.insync.replicas=2\nlog.cleaner.enable=false\n"
                    "auto.leader.rebalance.enable=false\ngroup.initial.rebalance.delay.ms=0\n" % (self.port + n, self.root, n) + settings)
        self.brokers[n] = self.server("broker-%d" % n, cfg)

    def server(self, name, cfg):
        with open(os.path.join(self.root, name + ".log"), "ab") as log:
            return subprocess.Popen(self.java("kafka.Kafka", cfg), stdout=log, stderr=log, start_new_session=True)

    def start(self, n):
        """Starts broker number n, the same each time by its log directory, and waits until it is registered."""
        self.launch(n, "zookeeper.connect=%s\nzookeeper.session.timeout.ms=6000\nzookeeper.connection.timeout.ms=30000\n"
                    "authorizer.class.name=kafka.security.authorizer.AclAuthorizer\nallow.everyone.if.no.acl.found=true\nsuper.users=User:ANONYMOUS\n"
                    % self.zookeeper)

        def registered():
            if self.brokers[n].poll() is not None:
                raise RuntimeError("broker %d ended while starting" % n)
            try:
                with open(os.path.join(self.root, "data-%d" % n, "meta.properties")) as f:
                    return re.search(r"^broker.id=(\d+)", f.read(), re.M)[1] in self.ids()
            except (OSError, TypeError):
                return False
        until("broker %d is registered" % n, registered, 120)

    def stop(self):
        for p in self.brokers.values():
            p.send_signal(signal.SIGTERM)
        for p in self.brokers.values():
            p.wait(60)
        self.brokers = {}

    def ids(self):
        """The registered brokers, as the first server of zookeeper.connect sees them."""
        port = int(re.search(r":(\d+)", self.zookeeper)[1])
        dump = until("port %d answers dump" % port, lambda: "Connections dump:" in (d := word(port, "dump")) and d)
        return re.findall(r"/brokers/ids/(\d+)$", dump, re.M)

    def shell(self, *command):
        """The last line that zookeeper-shell prints, apart from events."""
        out = self.tool("org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka", "-server", self.zookeeper, *command)
        return ([""] + [line for line in out.splitlines() if line and not line.startswith(("WATCHER", "WatchedEvent"))])[-1]

    def listing(self, path):
        return re.search(r"\[(.*)\]", self.shell("ls", path))[1].split(", ")

    def tool(self, main, *args, text=None):
        """Runs one of Kafka's tools; what it printed."""
        p = subprocess.run(self.java(main, *args), input=text, capture_output=True, text=True, timeout=120)
        if p.returncode != 0:
            raise RuntimeError("%s %s: exit %d: %s" % (main, " ".join(args), p.returncode, (p.stdout + p.stderr)[-2000:]))
        self.tools += 1
        return p.stdout

    def topics(self, *args):
        return self.tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.bootstrap, *args)

    def configs(self, *args, to=None):
        return self.tool("kafka.admin.ConfigCommand", *(to or ("--bootstrap-server", self.bootstrap)), *args)

    def acls(self, *args):
        return self.tool("kafka.admin.AclCommand", "--bootstrap-server", self.bootstrap, *args)

    def produce(self, numbers):
        self.tool(*self.producer, text="".join("%d\n" % n for n in numbers))

    @property
    def producer(self):
        return ("kafka.tools.ConsoleProducer", "--bootstrap-server", self.bootstrap, "--topic", "orders",
                "--request-required-acks", "all", "--message-send-max-retries", "1000")

    def consume(self, n, *args):
        out = self.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", self.bootstrap, "--topic", "orders",
                        "--max-messages", str(n), "--timeout-ms", "60000", *args)
        return [int(x) for x in out.split()]

    def tails(self):
        """The last lines of every log."""
        for name in sorted(os.listdir(self.root)):
            if name.endswith(".log"):
                with open(os.path.join(self.root, name)) as f:
                    print("--- %s\n%s" % (name, "".join(f.readlines()[-12:])))

    def kill(self):
        for p in self.brokers.values():
            p.kill()
            p.wait()
