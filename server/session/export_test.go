package session

// EndSilent is what the hub does every few seconds.
func (h *Hub) EndSilent() { h.endSilent(h.backend.Now()) }
