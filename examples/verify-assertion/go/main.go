// An upstream that trusts only Latchkey's signed assertion. It needs only Go's standard library.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

func setting(name, otherwise string) string {
	if value, given := os.LookupEnv(name); given {
		return value
	}
	return otherwise
}

func main() {
	// In seconds; the same as in Latchkey's Cache-Control.
	maxAge, err := strconv.Atoi(setting("JWKS_MAX_AGE", "300"))
	if err != nil {
		log.Fatal("JWKS_MAX_AGE: ", err)
	}
	verifier := &Verifier{
		Issuer:   setting("ISSUER", "https://auth.example.com"),
		Audience: setting("AUDIENCE", "example-api"),
		Bound:    setting("BOUND", "") == "required",
		Keys: &Keys{
			URL:    setting("JWKS_URL", "http://127.0.0.1:8080/.well-known/jwks.json"),
			MaxAge: time.Duration(maxAge) * time.Second,
		},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+setting("PORT", "3000"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := verifier.Verify(r)
		switch {
		case err == nil:
			respond(w, http.StatusOK, map[string]any{"hello": caller["login"], "caller": caller})
		case errors.Is(err, ErrRefused):
			respond(w, http.StatusUnauthorized, map[string]any{"error": err.Error()})
		default:
			// Without the keys the signature cannot be checked, so the assertion is not trusted.
			respond(w, http.StatusServiceUnavailable, map[string]any{"error": "the keys cannot be fetched"})
		}
	})
	// Close connections whose request is not complete in time.
	server := &http.Server{Handler: handler, ReadTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}

func respond(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
