package link

import (
	"io"
	"net"
	"sync"
	"time"
)

// streamHost is the authority that CONNECT streams are for: the member's own handler.
const streamHost = "upgrade:80"

// stream is a CONNECT stream as a connection. It goes through a pipe in memory, which has the deadlines of connections: net/http uses
// them to take a connection over.
type stream struct {
	net.Conn
	local, remote net.Addr
}

// LocalAddr implements net.Conn.
func (s stream) LocalAddr() net.Addr { return s.local }

// RemoteAddr implements net.Conn.
func (s stream) RemoteAddr() net.Addr { return s.remote }

// newStream returns the connection of what is read from r and written to w. When either way has ended, both do: end is called, which has to
// make reading from r end. Over is closed after nothing is read or written any more.
func newStream(r io.Reader, w io.Writer, end func(), local, remote net.Addr) (_ net.Conn, over <-chan struct{}) {
	near, far := net.Pipe()
	done := make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(far, r)
		_ = far.Close()
	})
	both.Go(func() {
		_, _ = io.Copy(w, far)
		_ = far.Close()
		end()
	})
	go func() {
		both.Wait()
		close(done)
	}()
	return stream{near, local, remote}, done
}

// lingering is how long what was written to the hub's end of a stream may still be on its way after that was closed.
const lingering = 5 * time.Second

// hubStream is the hub's end of a stream. Where the member takes nothing any more, what was written to it stays on its way: some time after
// it was closed the stream is ended all the same, which else would be there for as long as the link.
type hubStream struct {
	net.Conn
	over <-chan struct{}
	end  func()
	once sync.Once
}

// Close implements net.Conn.
func (s *hubStream) Close() error {
	s.once.Do(func() {
		timer := time.AfterFunc(lingering, s.end)
		go func() {
			<-s.over
			timer.Stop()
		}()
	})
	return s.Conn.Close() //nolint:wrapcheck // as a connection fails
}
