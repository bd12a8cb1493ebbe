import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.zookeeper.*;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.data.*;

/** Old HOST:PORT: what the official Java client of 3.4 and of every later release can do, each with its results checked. */
public class Old {
    interface Body { void run(ZooKeeper zk, String root) throws Exception; }
    interface Call { void run() throws Exception; }
    static final Map<String, Body> TESTS = new LinkedHashMap<>();
    static final List<ACL> OPEN = ZooDefs.Ids.OPEN_ACL_UNSAFE;
    static String hosts;

    static byte[] b(String s) { return s.getBytes(StandardCharsets.UTF_8); }
    static String s(byte[] b) { return b == null ? null : new String(b, StandardCharsets.UTF_8); }
    static void is(Object want, Object got, String what) { if (!Objects.equals(want, got)) throw new AssertionError(what + ": want " + want + ", got " + got); }
    static void raises(Code code, Call c) throws Exception {
        try { c.run(); } catch (KeeperException e) { is(code, e.code(), "error"); return; }
        throw new AssertionError("no error, want " + code);
    }
    static ZooKeeper connect(Watcher w, long id, byte[] password) throws Exception {
        CountDownLatch up = new CountDownLatch(1);
        Watcher both = e -> { if (e.getState() == KeeperState.SyncConnected && e.getType() == EventType.None) up.countDown(); if (w != null) w.process(e); };
        ZooKeeper zk = id == 0 ? new ZooKeeper(hosts, 10000, both) : new ZooKeeper(hosts, 10000, both, id, password);
        if (!up.await(30, TimeUnit.SECONDS)) throw new AssertionError("not connected");
        return zk;
    }
    static WatchedEvent next(BlockingQueue<WatchedEvent> q) throws Exception {
        for (;;) {
            WatchedEvent e = q.poll(30, TimeUnit.SECONDS);
            if (e == null) throw new AssertionError("no event");
            if (e.getType() != EventType.None) return e;
        }
    }

    static {
        TESTS.put("create, exists, get, set, children, delete", (zk, r) -> {
            is(r + "/a", zk.create(r + "/a", b("1"), OPEN, CreateMode.PERSISTENT), "create");
            is(r + "/s0000000001", zk.create(r + "/s", null, OPEN, CreateMode.PERSISTENT_SEQUENTIAL), "sequential");
            is(r + "/e", zk.create(r + "/e", b(""), OPEN, CreateMode.EPHEMERAL), "ephemeral");
            is(r + "/q0000000003", zk.create(r + "/q", b(""), OPEN, CreateMode.EPHEMERAL_SEQUENTIAL), "ephemeral sequential");
            is(zk.getSessionId(), zk.exists(r + "/e", false).getEphemeralOwner(), "owner");
            is(null, zk.exists(r + "/none", false), "exists");
            Stat st = new Stat();
            is("1", s(zk.getData(r + "/a", false, st)), "data"); is(0, st.getVersion(), "version");
            is(null, zk.getData(r + "/s0000000001", false, null), "null stays null");
            is(1, zk.setData(r + "/a", b("2"), 0).getVersion(), "set");
            is(4, zk.getChildren(r, false).size(), "children"); is(4, zk.getChildren(r, false, st).size(), "children and stat"); is(4, st.getNumChildren(), "in the stat");
            raises(Code.NODEEXISTS, () -> zk.create(r + "/a", b(""), OPEN, CreateMode.PERSISTENT)); raises(Code.BADVERSION, () -> zk.setData(r + "/a", b(""), 0));
            raises(Code.NOTEMPTY, () -> zk.delete(r, -1)); raises(Code.NONODE, () -> zk.delete(r + "/none", -1)); raises(Code.NOCHILDRENFOREPHEMERALS, () -> zk.create(r + "/e/x", b(""), OPEN, CreateMode.PERSISTENT));
            zk.delete(r + "/a", 1);
        });
        TESTS.put("multi and transaction", (zk, r) -> {
            List<OpResult> o = zk.multi(Arrays.asList(Op.create(r + "/a", b("1"), OPEN, CreateMode.PERSISTENT), Op.setData(r + "/a", b("2"), 0), Op.check(r + "/a", 1), Op.create(r + "/d", b(""), OPEN, CreateMode.PERSISTENT), Op.delete(r + "/d", 0)));
            is(r + "/a", ((OpResult.CreateResult) o.get(0)).getPath(), "create"); is(1, ((OpResult.SetDataResult) o.get(1)).getStat().getVersion(), "set"); is(5, o.size(), "results");
            try { zk.multi(Arrays.asList(Op.create(r + "/b", b(""), OPEN, CreateMode.PERSISTENT), Op.check(r + "/a", 9), Op.delete(r + "/a", -1))); throw new AssertionError("must fail"); }
            catch (KeeperException e) { int[] want = {0, -103, -2}; for (int i = 0; i < 3; i++) is(want[i], ((OpResult.ErrorResult) e.getResults().get(i)).getErr(), "result " + i); }
            is(null, zk.exists(r + "/b", false), "undone"); is(1, zk.transaction().create(r + "/t", b(""), OPEN, CreateMode.PERSISTENT).commit().size(), "transaction");
        });
        TESTS.put("watches", (zk, r) -> {
            BlockingQueue<WatchedEvent> q = new LinkedBlockingQueue<>(); ZooKeeper other = connect(null, 0, null);
            zk.exists(r + "/w", q::add); other.create(r + "/w", b(""), OPEN, CreateMode.PERSISTENT); is(EventType.NodeCreated, next(q).getType(), "created");
            zk.getData(r + "/w", q::add, null); other.setData(r + "/w", b("1"), -1); other.setData(r + "/w", b("2"), -1); is(EventType.NodeDataChanged, next(q).getType(), "changed");
            zk.getChildren(r + "/w", q::add); other.create(r + "/w/c", b(""), OPEN, CreateMode.PERSISTENT); is(EventType.NodeChildrenChanged, next(q).getType(), "children");
            zk.getData(r + "/w/c", q::add, null); other.delete(r + "/w/c", -1); is(EventType.NodeDeleted, next(q).getType(), "deleted");
            is(0, q.size(), "each once"); other.close();
        });
        TESTS.put("a session that moves, watches that are armed again", (zk, r) -> {
            BlockingQueue<WatchedEvent> q = new LinkedBlockingQueue<>(); ZooKeeper other = connect(null, 0, null);
            zk.create(r + "/a", b(""), OPEN, CreateMode.PERSISTENT); zk.create(r + "/e", b(""), OPEN, CreateMode.EPHEMERAL);
            zk.getData(r + "/a", q::add, null); zk.exists(r + "/later", q::add); zk.getChildren(r, q::add);
            CountDownLatch lost = new CountDownLatch(1), back = new CountDownLatch(1);
            zk.register(e -> { if (e.getState() == KeeperState.Disconnected) lost.countDown(); else if (e.getState() == KeeperState.SyncConnected && lost.getCount() == 0) back.countDown(); });
            // Its connection is taken over by a second client with the same session; it comes back by itself.
            ZooKeeper thief = connect(null, zk.getSessionId(), zk.getSessionPasswd()); is(zk.getSessionId(), thief.getSessionId(), "session");
            is(true, lost.await(30, TimeUnit.SECONDS), "cut off"); other.setData(r + "/a", b("1"), -1); other.create(r + "/later", b(""), OPEN, CreateMode.PERSISTENT);
            is(true, back.await(30, TimeUnit.SECONDS), "back");
            Set<EventType> got = EnumSet.noneOf(EventType.class); while (got.size() < 3) got.add(next(q).getType());
            is(EnumSet.of(EventType.NodeDataChanged, EventType.NodeCreated, EventType.NodeChildrenChanged), got, "events");
            is(true, other.exists(r + "/e", false) != null, "the ephemeral is there"); other.close();
        });
        TESTS.put("ACLs and auth", (zk, r) -> {
            ZooKeeper u = connect(null, 0, null); u.addAuthInfo("digest", b("bob:secret")); u.create(r + "/x", b("1"), ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
            raises(Code.NOAUTH, () -> zk.getData(r + "/x", false, null)); raises(Code.NOAUTH, () -> zk.setData(r + "/x", b(""), -1)); Stat st = new Stat();
            is("digest", u.getACL(r + "/x", st).get(0).getId().getScheme(), "scheme"); is(1, u.setACL(r + "/x", OPEN, 0).getAversion(), "aversion"); zk.setData(r + "/x", b("2"), -1);
            raises(Code.INVALIDACL, () -> zk.create(r + "/bad", b(""), Collections.singletonList(new ACL(31, new Id("nosuch", "x"))), CreateMode.PERSISTENT)); u.close();
        });
        TESTS.put("asynchronous calls in order, sync", (zk, r) -> {
            zk.create(r + "/a", b(""), OPEN, CreateMode.PERSISTENT); int n = 1000; List<Integer> seen = Collections.synchronizedList(new ArrayList<>()); CountDownLatch done = new CountDownLatch(n);
            for (int i = 0; i < n; i++) { zk.setData(r + "/a", b("" + i), i, (rc, p, c, st) -> is(0, rc, "set"), null); zk.getData(r + "/a", false, (rc, p, c, d, st) -> { seen.add(Integer.parseInt(s(d))); done.countDown(); }, null); }
            is(true, done.await(60, TimeUnit.SECONDS), "all answered"); for (int i = 0; i < n; i++) is(i, seen.get(i), "read " + i);
            CountDownLatch synced = new CountDownLatch(1); zk.sync(r, (rc, p, c) -> { if (rc == 0) synced.countDown(); }, null); is(true, synced.await(30, TimeUnit.SECONDS), "sync");
        });
        TESTS.put("close ends the ephemerals, a wrong password the session's handle", (zk, r) -> {
            ZooKeeper u = connect(null, 0, null); u.create(r + "/e", b(""), OPEN, CreateMode.EPHEMERAL); CountDownLatch expired = new CountDownLatch(1);
            ZooKeeper wrong = new ZooKeeper(hosts, 10000, e -> { if (e.getState() == KeeperState.Expired) expired.countDown(); }, u.getSessionId(), new byte[16]);
            is(true, expired.await(30, TimeUnit.SECONDS), "refused"); wrong.close();
            for (;;) try { u.exists(r, false); break; } catch (KeeperException.ConnectionLossException e) { /* Apache cuts the owner off for a moment */ }
            u.close(); zk.sync(r, null, null);
            is(null, zk.exists(r + "/e", false), "gone with its session");
        });
    }

    public static void main(String[] args) throws Exception {
        hosts = args[0]; int good = 0, bad = 0; String base = "/old-" + System.currentTimeMillis(); ZooKeeper top = connect(null, 0, null); top.create(base, b(""), OPEN, CreateMode.PERSISTENT);
        for (Map.Entry<String, Body> t : TESTS.entrySet()) {
            String root = base + "/" + (good + bad); top.create(root, b(""), OPEN, CreateMode.PERSISTENT); ZooKeeper zk = connect(null, 0, null);
            try { t.getValue().run(zk, root); good++; System.out.println("ok   " + t.getKey()); } catch (Throwable e) { bad++; System.out.println("FAIL " + t.getKey()); e.printStackTrace(System.out); }
            zk.close();
        }
        top.close(); System.out.println(good + " passed, " + bad + " failed"); System.exit(bad == 0 ? 0 : 1);
    }
}
