package stream

// Open returns how many streams there are now.
func (g *Guard) Open() int { return g.streams.Running() }
