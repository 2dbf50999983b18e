package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("another process holds the lock")

// Lock takes the lock of file without waiting, or fails with ErrLocked. The kernel releases it when the returned file is
// closed or the process ends, so that no stale lock can be left; children do not inherit it.
func Lock(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file, err), f.Close())
	}
	return f, nil
}
