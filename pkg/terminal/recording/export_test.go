package recording

// SetLimit sets the bound of a cast.
func (r *Recorder) SetLimit(bytes int64) { r.limit = bytes }

// Held returns how many bytes wait to be written.
func (r *Recorder) Held() int64 { return r.held.Load() }

// The bounds and times that tests need.
const (
	MaxWaiting = maxWaiting
	Hold       = hold
	CheckEvery = checkEvery
	Stall      = stall
	Abandoned  = abandoned
)
