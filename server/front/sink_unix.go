//go:build unix

package front

import "syscall"

// nonBlocking says that sockets can be read and written without waiting on this platform.
const nonBlocking = true

func tryWrite(fd uintptr, p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := syscall.Write(int(fd), p[done:])
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return done, nil
		case err != nil:
			return done, err
		default:
			done += n
		}
	}
	return done, nil
}

// tryRead returns again=true when there is nothing to read yet.
func tryRead(fd uintptr, p []byte) (n int, again bool, err error) {
	for {
		n, err = syscall.Read(int(fd), p)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return 0, true, nil
		case err != nil:
			return 0, false, err
		}
		return n, false, nil
	}
}
