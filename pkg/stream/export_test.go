package stream

// Open returns how many streams there are now.
func (g *Guard) Open() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.total
}
