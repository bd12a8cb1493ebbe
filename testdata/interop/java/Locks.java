import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.*;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.*;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's locks and LeaderLatch beside other clients' locks: see ../README.md. */
public class Locks {
    public static void main(String[] a) throws Exception {
        CuratorFramework c = CuratorFrameworkFactory.newClient(a[1], 10000, 10000, new ExponentialBackoffRetry(100, 5));
        c.start();
        InterProcessMutex m = new InterProcessMutex(c, a[2]);
        InterProcessLock lock = a[0].equals("write") ? new InterProcessReadWriteLock(c, a[2]).writeLock() : m;
        switch (a[0]) {
        case "lock":
        case "write":
        case "latch":
            Path file = Paths.get(a[3]);
            int turns = 0;
            for (long end = System.nanoTime() + Long.parseLong(a[4]) * 1_000_000_000L; System.nanoTime() < end; turns++) {
                LeaderLatch latch = new LeaderLatch(c, a[2]); // can lead once
                if (a[0].equals("latch")) {
                    latch.start();
                    latch.await();
                } else {
                    lock.acquire();
                }
                int n = Integer.parseInt(Files.readString(file).trim());
                Thread.sleep(1); // who does not wait for the lock comes in between
                Files.write(file, String.format("%010d", n + 1).getBytes(StandardCharsets.UTF_8), StandardOpenOption.WRITE); // in place
                if (a[0].equals("latch")) {
                    latch.close();
                } else {
                    lock.release();
                }
            }
            System.out.println(turns);
            break;
        case "hold":
            CountDownLatch asked = new CountDownLatch(1);
            m.makeRevocable(x -> asked.countDown());
            m.acquire();
            System.out.println("held");
            asked.await();
            m.release();
            System.out.println("revoked");
            break;
        case "revoke":
            Revoker.attemptRevoke(c, m.getParticipantNodes().iterator().next());
            break;
        default:
            throw new IllegalArgumentException(a[0]);
        }
        c.close();
    }
}
