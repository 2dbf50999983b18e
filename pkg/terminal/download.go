package terminal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/http"
	"slices"
	"sync"
)

// Download is an archive on its way from a container to a client.
type Download struct {
	// Begin is called before the first byte.
	Begin func()
	// To is where the archive goes.
	To io.Writer

	mu    sync.Mutex
	ended bool
	held  []byte // the beginning, as long as it is zeros
	bytes int64
	sum   hash.Hash
}

// maxHeld bounds the zeros that are held: an archive of nothing has one record of them, which is of 20 blocks by default.
const maxHeld = 20 * 512

// Run packs what r asks for (DownloadQuery), and returns when tar has ended. An error after Bytes, if there are any, means that the archive
// is not whole. r is as Executor.Exec wants it.
func (d *Download) Run(r *http.Request, by Executor) error {
	d.sum = sha256.New()
	var said messages
	err := by.Exec(r, Streams{Stdout: writerFunc(d.write), Stderr: &said})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true // a process that ends with the request may still write
	switch {
	case err != nil:
		return tarFailure(err, said.String())
	case d.bytes == 0:
		return tarFailure(&ExitError{Code: 0}, "it packed nothing")
	}
	return nil
}

// write sends what tar writes. It holds zeros at the beginning: a tar that finds no file writes the end of an archive before it fails, and
// the client is to be told of that.
func (d *Download) write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return 0, errEnded
	}
	if d.bytes == 0 {
		if d.held = append(d.held, p...); len(d.held) <= maxHeld && !slices.ContainsFunc(d.held, func(b byte) bool { return b != 0 }) {
			return len(p), nil
		}
		d.Begin()
		if err := d.send(d.held); err != nil {
			return 0, err
		}
		d.held = nil
		return len(p), nil
	}
	if err := d.send(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// send sends p to the client. The caller holds the lock.
func (d *Download) send(p []byte) error {
	n, err := d.To.Write(p)
	d.bytes += int64(n)
	d.sum.Write(p[:n])
	if err != nil {
		return fmt.Errorf("send an archive to the client: %w", err)
	}
	return nil
}

// Result returns how many bytes were sent, and their SHA-256.
func (d *Download) Result() (bytes int64, sum string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bytes, hex.EncodeToString(d.sum.Sum(nil))
}
