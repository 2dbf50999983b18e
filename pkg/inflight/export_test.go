package inflight

// Owners returns how many owners are remembered.
func (l *Limit[Owner]) Owners() int { return len(l.of) }
