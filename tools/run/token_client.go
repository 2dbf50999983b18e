package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// login is the answer of the token endpoint (RFC 6749, 5.1).
type login struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	// Seconds is how long Access is valid; 0 forever.
	Seconds int64 `json:"expires_in"`
}

// refused reports whether the server has answered that the credentials are wrong.
func refused(err error) bool {
	var status *statusError
	return errors.As(err, &status) && (status.code == http.StatusBadRequest || status.code == http.StatusUnauthorized)
}

func passwordLogin(ctx context.Context, server, secret, password string) (login, error) {
	return token(ctx, server, secret, url.Values{"grant_type": {"password"}, "username": {"admin"}, "password": {password}})
}

func refreshLogin(ctx context.Context, server, secret, refresh string) (login, error) {
	return token(ctx, server, secret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}})
}

// token sends a request to the token endpoint as the console does: as the client that every installation has, with its secret there.
func token(ctx context.Context, server, secret string, form url.Values) (login, error) {
	form.Set("client_id", "kubesphere")
	form.Set("client_secret", secret)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server+"/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		return login{}, fmt.Errorf("log in: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	body, err := answer(req)
	if err != nil {
		return login{}, fmt.Errorf("log in: %w", err)
	}
	var l login
	if err := json.Unmarshal(body, &l); err != nil {
		return login{}, fmt.Errorf("log in: decode the answer: %w", err)
	}
	if l.Access == "" {
		return login{}, errors.New("log in: the answer holds no access token")
	}
	return l, nil
}
