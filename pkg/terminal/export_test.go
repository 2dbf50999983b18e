package terminal

// Users returns how many users are remembered.
func (l *Limiter) Users() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.users)
}
