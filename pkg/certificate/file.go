package certificate

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// File is a certificate that is read again when its file changes, so that a renewed one is served without a restart.
type File struct {
	// Certificate and Key are the names of the files, in PEM.
	Certificate, Key string
	Now              func() time.Time

	mu       sync.Mutex
	cert     *tls.Certificate
	modified time.Time
	checked  time.Time
}

// CheckEvery is how often a File is looked at.
const CheckEvery = 10 * time.Second

// Load returns the certificate: the former one where a new one can't be read.
func (c *File) Load() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cert != nil && c.Now().Sub(c.checked) < CheckEvery {
		return c.cert, nil
	}
	c.checked = c.Now()
	st, err := os.Stat(c.Certificate)
	if err == nil && c.cert != nil && st.ModTime().Equal(c.modified) {
		return c.cert, nil
	}
	var cert tls.Certificate
	if err == nil {
		cert, err = tls.LoadX509KeyPair(c.Certificate, c.Key)
	}
	switch {
	case err != nil && c.cert != nil:
		klog.ErrorS(err, "the serving certificate could not be read again; the former one stays in use")
		return c.cert, nil
	case err != nil:
		return nil, fmt.Errorf("read the serving certificate (--tls-cert-file, --tls-private-key): %w", err)
	}
	c.cert, c.modified = &cert, st.ModTime()
	return c.cert, nil
}
