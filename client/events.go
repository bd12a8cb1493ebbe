package client

// EventStream gets every event that the server sends to this session, whichever watches it is for, each once and in
// order. It arms nothing itself. Make it with Events.
//
// C holds Options.WatchRoom events for a reader that is slow. When it is full, the stream ends: the last Event is
// EventLost with ErrWatchOverflow. When the session ends, the last Event is EventLost too. After the last one C is
// closed.
type EventStream struct {
	C <-chan Event // the events, in the order of the server's

	c  *Client
	ch chan Event
}

// Events begins a stream of the events that come from now on. Of a final client it is over already.
func (c *Client) Events() *EventStream {
	ch := make(chan Event, c.o.WatchRoom+1)
	s := &EventStream{C: ch, c: c, ch: ch}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finalCode != OK {
		ch <- Event{Type: EventLost, Err: &Error{Op: "events", Code: c.finalCode, Cause: c.finalErr}}
		close(ch)
		return s
	}
	c.streams[s] = struct{}{}
	return s
}

// Stop ends the stream and closes C, without a last event.
func (s *EventStream) Stop() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if _, ok := s.c.streams[s]; ok {
		delete(s.c.streams, s)
		close(s.ch)
	}
}

// overhear gives an event to the streams. With Client.mu held.
func (c *Client) overhear(ev Event) {
	for s := range c.streams {
		if len(s.ch) < cap(s.ch)-1 {
			s.ch <- ev
			continue
		}
		s.end(&Error{Op: "events", Code: ErrWatchOverflow})
	}
}

// end is called with Client.mu held. There is always room for the last event.
func (s *EventStream) end(why error) {
	delete(s.c.streams, s)
	s.ch <- Event{Type: EventLost, Err: why}
	close(s.ch)
}

// endStreams ends all streams. With Client.mu held.
func (c *Client) endStreams(why error) {
	for s := range c.streams {
		s.end(why)
	}
}
