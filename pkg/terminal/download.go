package terminal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
	zeros int64 // at the end of what was sent
	sum   hash.Hash
}

// block is the unit of an archive, whose end is at least two blocks of zeros (POSIX.1-2017, pax, "ustar Interchange Format").
const block = 512

var errNoEnd = errors.New("the archive has no end")

// maxHeld bounds the zeros that are held: an archive of nothing has one record of them, which is of 20 blocks by default.
const maxHeld = 20 * block

// Run packs what r asks for (DownloadQuery), and returns when tar has ended. An error after Bytes, if there are any, means that the archive
// is not whole: kube-apiserver says of a command that it ended well also where it has lost the kubelet, so that the archive has to have an
// end. r is as Executor.Exec wants it.
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
	case d.bytes%block != 0 || d.zeros < 2*block:
		return tarFailure(errNoEnd, "")
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
	zeros := int64(n - len(bytes.TrimRight(p[:n], "\x00")))
	if zeros == int64(n) {
		zeros += d.zeros
	}
	d.zeros = zeros
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
