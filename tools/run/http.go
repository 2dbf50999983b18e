package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxAnswer bounds what is read of one answer, in bytes.
const maxAnswer = 1 << 20

// statusError is an answer other than 200 and 201.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("%d %s", e.code, e.text) }

func get(ctx context.Context, address, token string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return answer(req)
}

func post(ctx context.Context, address, token, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	return answer(req)
}

func answer(req *http.Request) ([]byte, error) {
	client := httpClient()
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		return nil, &statusError{resp.StatusCode, strings.Join(strings.Fields(string(body[:min(len(body), 300)])), " ")}
	}
	return body, nil
}
