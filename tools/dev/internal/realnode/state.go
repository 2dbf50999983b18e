package realnode

import (
	"encoding/json"
	"fmt"
	"os"

	"kapis.dev/ks-apiserver/tools/dev/internal/pki"
)

// state is what the node made outside its namespaces and its folder. It is written before they are made.
type state struct {
	// Index is the number of the node.
	Index int
	// Made are those of compiledIn that did not exist before.
	Made []string
}

func writeState(dir string, s state) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the state of the real node: %w", err)
	}
	return pki.WriteFile(stateFile(dir), data, 0o600)
}

func readState(dir string) (state, error) {
	data, err := os.ReadFile(stateFile(dir))
	if err != nil {
		return state{}, fmt.Errorf("read what the real node has made: %w", err)
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return state{}, fmt.Errorf("read what the real node has made (%s): %w", stateFile(dir), err)
	}
	return s, nil
}
