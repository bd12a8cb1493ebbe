import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.zookeeper.*;
import org.apache.zookeeper.data.*;

/** The official Java client as a client under test: see ../README.md. */
public class Worker {
    static final int EPHEMERALS = 20, WATCHES = 50, WRITES = 2000, DATA = 40;

    static byte[] b(String s) { return s.getBytes(StandardCharsets.UTF_8); }
    static String s(byte[] b) { return b == null ? null : new String(b, StandardCharsets.UTF_8); }
    static void check(boolean ok, String what) { if (!ok) throw new AssertionError(what); }

    interface Call { void run() throws Exception; }
    static void raises(KeeperException.Code code, Call c) throws Exception {
        try { c.run(); } catch (KeeperException e) { check(e.code() == code, e.code() + ", want " + code); return; }
        throw new AssertionError("no error, want " + code);
    }

    static ZooKeeper connect(String hosts, Watcher w) throws Exception {
        CountDownLatch up = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(hosts, 10000, e -> {
            if (e.getState() == Watcher.Event.KeeperState.SyncConnected && e.getType() == Watcher.Event.EventType.None) up.countDown();
            if (w != null) w.process(e);
        });
        check(up.await(30, TimeUnit.SECONDS), "not connected to " + hosts);
        return zk;
    }

    static void ops(String addr, String name) throws Exception {
        ZooKeeper zk = connect(addr, null);
        List<ACL> open = ZooDefs.Ids.OPEN_ACL_UNSAFE;
        String root = "/ops-" + name;
        check(zk.create(root, b("r"), open, CreateMode.PERSISTENT).equals(root), "create");
        raises(KeeperException.Code.NODEEXISTS, () -> zk.create(root, null, open, CreateMode.PERSISTENT));
        Stat st = new Stat();
        zk.create(root + "/a", b("1"), open, CreateMode.PERSISTENT, st);
        check(st.getVersion() == 0 && st.getDataLength() == 1, "create2 " + st);
        check(zk.create(root + "/s-", null, open, CreateMode.PERSISTENT_SEQUENTIAL).endsWith("/s-0000000001"), "sequential");
        zk.create(root + "/e", b(""), open, CreateMode.EPHEMERAL);
        check(zk.create(root + "/es-", b(""), open, CreateMode.EPHEMERAL_SEQUENTIAL).endsWith("/es-0000000003"), "ephemeral sequential");
        check(zk.exists(root + "/e", false).getEphemeralOwner() == zk.getSessionId(), "owner");
        check(zk.exists(root + "/none", false) == null, "exists");
        check(zk.getData(root + "/s-0000000001", false, null) == null, "null data stays null");
        check(zk.getData(root + "/e", false, null).length == 0, "empty data stays empty");
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        check(s(zk.getData(root + "/a", events::add, st)).equals("1"), "getData");
        check(zk.setData(root + "/a", b("2"), 0).getVersion() == 1, "setData");
        WatchedEvent e = events.poll(10, TimeUnit.SECONDS);
        check(e != null && e.getType() == Watcher.Event.EventType.NodeDataChanged && e.getZxid() == zk.exists(root + "/a", false).getMzxid(), "data event " + e);
        raises(KeeperException.Code.BADVERSION, () -> zk.setData(root + "/a", b("3"), 0));
        List<String> kids = new ArrayList<>(zk.getChildren(root, events::add, st));
        Collections.sort(kids);
        check(kids.equals(List.of("a", "e", "es-0000000003", "s-0000000001")) && st.getNumChildren() == 4, "children " + kids);
        raises(KeeperException.Code.NOTEMPTY, () -> zk.delete(root, -1));
        zk.delete(root + "/a", 1);
        e = events.poll(10, TimeUnit.SECONDS);
        check(e != null && e.getType() == Watcher.Event.EventType.NodeChildrenChanged, "child event " + e);
        check(zk.exists(root + "/a", events::add) == null, "gone");
        zk.create(root + "/a", b("4"), open, CreateMode.PERSISTENT);
        e = events.poll(10, TimeUnit.SECONDS);
        check(e != null && e.getType() == Watcher.Event.EventType.NodeCreated, "exist event " + e);
        check(zk.getACL(root + "/a", st).equals(open) && st.getAversion() == 0, "getACL");
        raises(KeeperException.Code.INVALIDACL, () -> zk.setACL(root + "/a", new ArrayList<>(List.of(new ACL(1, new Id("nope", "x")))), -1));
        zk.addAuthInfo("digest", b("u:p"));
        zk.create(root + "/private", b(""), ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        ZooKeeper other = connect(addr, null);
        CountDownLatch synced = new CountDownLatch(1);
        other.sync("/", (rc, p, x) -> synced.countDown(), null);
        check(synced.await(10, TimeUnit.SECONDS), "sync");
        raises(KeeperException.Code.NOAUTH, () -> other.getData(root + "/private", false, null));
        other.close();
        check(zk.whoAmI().stream().anyMatch(i -> i.getAuthScheme().equals("digest") && i.getUser().equals("u")), "whoAmI");
        check(zk.setACL(root + "/a", ZooDefs.Ids.READ_ACL_UNSAFE, 0).getAversion() == 1, "setACL");
        raises(KeeperException.Code.NOAUTH, () -> zk.setData(root + "/a", b("5"), -1));
        check(zk.getEphemerals(root).size() == 2, "getEphemerals");
        check(zk.getAllChildrenNumber(root) == 5, "getAllChildrenNumber");
        List<OpResult> r = zk.multi(List.of(Op.create(root + "/t", b("x"), open, CreateMode.PERSISTENT), Op.setData(root + "/t", b("y"), -1),
            Op.check(root + "/t", 1), Op.delete(root + "/t", -1)));
        check(((OpResult.SetDataResult) r.get(1)).getStat().getVersion() == 1 && r.size() == 4, "multi");
        try {
            zk.multi(List.of(Op.create(root + "/t", b("x"), open, CreateMode.PERSISTENT), Op.delete(root + "/none", -1), Op.check(root, -1)));
            check(false, "multi must fail");
        } catch (KeeperException.NoNodeException x) {
            check(x.getResults().size() == 3 && zk.exists(root + "/t", false) == null, "rolled back");
        }
        r = zk.multi(List.of(Op.getData(root + "/e"), Op.getChildren(root), Op.getData(root + "/none")));
        check(r.get(1) instanceof OpResult.GetChildrenResult && r.get(2) instanceof OpResult.ErrorResult, "multiRead");
        ZKUtil.deleteRecursive(zk, root);
        zk.close();
    }

    final String connect, root;
    final Map<String, String> nodes = new ConcurrentHashMap<>(), seen = new ConcurrentHashMap<>();
    final List<String> faults = Collections.synchronizedList(new ArrayList<>());
    final Set<String> sessions = Collections.synchronizedSet(new LinkedHashSet<>());
    final AtomicInteger events = new AtomicInteger();
    final AtomicBoolean stop = new AtomicBoolean();
    final ExecutorService reader = Executors.newSingleThreadExecutor(r -> { Thread t = new Thread(r); t.setDaemon(true); return t; });
    int writes, unsure;
    ZooKeeper zk;

    Worker(String connect, String name) { this.connect = connect; root = "/chaos/" + name; }

    <T> T retry(Callable<T> c) throws Exception {
        long end = System.currentTimeMillis() + 60000;
        for (;;) {
            try { return c.call(); } catch (KeeperException.ConnectionLossException | KeeperException.OperationTimeoutException e) {
                if (System.currentTimeMillis() > end) throw e;
                Thread.sleep(5);
            }
        }
    }

    String read(String path) throws Exception {
        return retry(() -> {
            CompletableFuture<Integer> f = new CompletableFuture<>();
            zk.sync(path, (rc, p, x) -> f.complete(rc), null);
            int rc = f.get();
            if (rc != 0) throw KeeperException.create(KeeperException.Code.get(rc), path);
            try { return s(zk.getData(path, false, null)); } catch (KeeperException.NoNodeException e) { return null; }
        });
    }

    boolean settled(String path, String value) throws Exception {
        String found = read(path);
        if (!value.equals(found) && !Objects.equals(found, nodes.get(path)))
            faults.add(path + " holds " + found + ", neither " + nodes.get(path) + " nor " + value);
        return value.equals(found);
    }

    void write(String path, String value) throws Exception {
        boolean first = !nodes.containsKey(path);
        long end = System.currentTimeMillis() + 60000;
        for (;;) {
            try {
                if (first) zk.create(path, b(value), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
                else zk.setData(path, b(value), -1);
                break;
            } catch (KeeperException.ConnectionLossException | KeeperException.OperationTimeoutException e) {
                unsure++;
                if (System.currentTimeMillis() > end) throw e;
                if (settled(path, value)) break;
            } catch (KeeperException.NodeExistsException e) {
                if (!settled(path, value)) throw e;
                break;
            }
        }
        nodes.put(path, value);
        writes++;
    }

    void arm(String path) {
        reader.submit(() -> {
            try {
                String v = retry(() -> s(zk.getData(path, e -> {
                    if (e.getType() == Watcher.Event.EventType.None) return;
                    events.incrementAndGet();
                    arm(path);
                }, null)));
                seen.put(path, v);
            } catch (Exception e) { if (!stop.get()) faults.add("watch on " + path + ": " + e); }
        });
    }

    String run() throws Exception {
        zk = connect(connect, e -> {
            if (e.getState() == Watcher.Event.KeeperState.Expired) faults.add("session expired");
            if (e.getState() == Watcher.Event.KeeperState.SyncConnected && zk != null) sessions.add(Long.toHexString(zk.getSessionId()));
        });
        sessions.add(Long.toHexString(zk.getSessionId()));
        for (String p : new String[] {"/chaos", root})
            retry(() -> { try { zk.create(p, null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT); } catch (KeeperException.NodeExistsException e) { } return null; });
        List<String> ephemerals = new ArrayList<>(), watched = new ArrayList<>();
        for (int i = 0; i < EPHEMERALS; i++) {
            String p = root + "/e-" + i;
            ephemerals.add(p);
            retry(() -> { // whose it is is checked by the driver
                try { zk.create(p, null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL); } catch (KeeperException.NodeExistsException e) { }
                return null;
            });
        }
        for (int i = 0; i < WATCHES; i++) { String p = root + "/w-" + i; watched.add(p); write(p, "0"); arm(p); }
        for (int n = 1; !(stop.get() && writes >= WRITES); n++) {
            write(root + "/d-" + n % DATA, "" + n);
            if (n % 4 == 0) write(root + "/c-" + n, "" + n);
            if (n % 3 == 0) write(watched.get(n / 3 % WATCHES), "" + n);
            if (!stop.get()) Thread.sleep(4);
        }
        for (String p : watched) write(p, "last");
        long end = System.currentTimeMillis() + 60000;
        while (System.currentTimeMillis() < end && watched.stream().anyMatch(p -> !"last".equals(seen.get(p)))) Thread.sleep(50);
        for (String p : watched) if (!"last".equals(seen.get(p))) faults.add("watch on " + p + " last told of " + seen.get(p));
        StringBuilder j = new StringBuilder("{\"writes\":" + writes + ",\"unsure\":" + unsure + ",\"events\":" + events.get());
        j.append(",\"nodes\":{");
        String sep = "";
        for (Map.Entry<String, String> e : nodes.entrySet()) { j.append(sep).append(q(e.getKey())).append(':').append(q(e.getValue())); sep = ","; }
        return j.append("},\"ephemerals\":").append(list(ephemerals)).append(",\"sessions\":").append(list(sessions)).append(",\"faults\":").append(list(faults)).append("}").toString();
    }

    static String q(String s) { return '"' + s.replace("\\", "\\\\").replace("\"", "\\\"") + '"'; }
    static String list(Collection<String> c) {
        StringJoiner j = new StringJoiner(",", "[", "]");
        for (String s : c) j.add(q(s));
        return j.toString();
    }

    public static void main(String[] a) throws Exception {
        if (a[0].equals("ops")) { ops(a[1], a[2]); System.out.println("ok"); return; }
        Worker w = new Worker(a[1], a[2]);
        CountDownLatch ended = new CountDownLatch(1);
        Thread in = new Thread(() -> {
            try (Scanner sc = new Scanner(System.in)) { while (sc.hasNextLine()) if (sc.nextLine().trim().equals("stop")) w.stop.set(true); }
            ended.countDown();
        });
        in.setDaemon(true);
        in.start();
        System.out.println(w.run());
        System.out.flush();
        ended.await();
        w.zk.close();
    }
}
