package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Where the timer is late the clock decides: Err, and with it Done, says that nothing is held any longer.
func TestHoldWithALateTimer(t *testing.T) {
	bubble(t, "a:1", nil, func(t *testing.T, f *fakeServers, c *Client) {
		s := f.accept()
		s.welcome()
		synctest.Wait()
		hold, cancel := c.HoldContext(t.Context())
		defer cancel()
		child, stop := context.WithCancel(hold)
		defer stop()
		f.setUp(false)
		_ = s.Close()
		synctest.Wait()
		c.mu.Lock()
		c.timer.Stop()
		c.mu.Unlock()
		time.Sleep(fakeTimeoutD()*2/3 - time.Millisecond)
		if hold.Err() != nil {
			t.Error("the hold has ended early")
		}
		time.Sleep(2 * time.Millisecond)
		if hold.Err() == nil || !errors.Is(context.Cause(hold), ErrLost) {
			t.Errorf("the hold has not ended: %v", context.Cause(hold))
		}
		<-hold.Done()
		<-child.Done()
		if s := c.State(); s != Lost {
			t.Errorf("state %v", s)
		}
	})
}
