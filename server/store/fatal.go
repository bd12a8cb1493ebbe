package store

import (
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// failure is the store's one way to die. The first error wins, is published once, and stays.
type failure struct {
	once   sync.Once
	failed chan struct{} // closed by the first error
	err    error         // set before failed is closed
	tell   func(error)
}

func newFailure(tell func(error)) *failure {
	return &failure{failed: make(chan struct{}), tell: tell}
}

// fail publishes err and returns the error that everybody gets from now on.
func (f *failure) fail(err error) error {
	f.once.Do(func() {
		f.err = err
		close(f.failed)
		f.tell(err)
	})
	<-f.failed
	return f.err
}

// get is nil as long as all is well.
func (f *failure) get() error {
	select {
	case <-f.failed:
		return f.err
	default:
		return nil
	}
}

// await runs step and returns what it does, or the error once the store has failed: Pebble may never come back from
// one, and whatever waits behind that neither. Whoever runs the step stays parked with it then; nothing of what it
// works on may be touched any more.
func (f *failure) await(step func() error) error {
	done := make(chan error, 1)
	go func() { done <- step() }() // ends with the step, so perhaps never after a fatal error
	select {
	case err := <-done:
		return err
	case <-f.failed:
		return f.err
	}
}

// parkFatal never returns: after a fatal error of Pebble nothing may go on as if it had not happened, and a library
// does not end the process.
func parkFatal() { select {} }

// pebbleLogger receives what Pebble has to say about one of the stores.
type pebbleLogger struct {
	s    *Store
	part string
}

var _ pebble.Logger = pebbleLogger{}

// Infof drops Pebble's chatter; what matters of it comes through the event listener.
func (pebbleLogger) Infof(string, ...any) {}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.s.o.Log.Error().Str("store", l.part).Str("detail", fmt.Sprintf(format, args...)).Msg("storage error")
}

// Fatalf publishes and parks the caller for ever.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	_ = l.s.failure.fail(fmt.Errorf("store: %s: %s", l.part, fmt.Sprintf(format, args...)))
	parkFatal()
}
