package link

import (
	"io"
	"net"
	"sync"
	"testing"
)

// stalled is the way to a member that takes nothing: a write waits until the stream is ended.
type stalled struct{ begun, ended chan struct{} }

func (s *stalled) Write([]byte) (int, error) {
	close(s.begun)
	<-s.ended
	return 0, io.ErrClosedPipe
}

// F18, F39: a stream that is closed here ends, also where the member takes nothing of what was written to it: else each of them would be there, at both
// ends, for as long as the link, which has room for so many.
func TestAStreamEndsWhereTheMemberTakesNothing(t *testing.T) {
	w := &stalled{make(chan struct{}), make(chan struct{})}
	answers, nothing := io.Pipe() // never written
	end := sync.OnceFunc(func() { close(w.ended); _ = nothing.Close() })
	near, over := newStream(answers, w, end, &net.TCPAddr{}, &net.TCPAddr{})
	s := &hubStream{Conn: near, over: over, end: end}
	if _, err := io.WriteString(s, "what is written"); err != nil {
		t.Fatal(err)
	}
	<-w.begun
	_ = s.Close()
	_ = s.Close() // as net/http may
	<-over
}
