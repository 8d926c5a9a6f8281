package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"time"
)

// ErrRefused is the error for an assertion that is not valid.
var ErrRefused = errors.New("the assertion is not valid")

// Leeway is how far the clocks of both machines may differ.
const Leeway = 5 * time.Second

// Claims are what an assertion says about the user.
type Claims map[string]any

// Verifier checks assertions (RFC 7519 7.2).
type Verifier struct {
	Issuer   string
	Audience string
	// Bound accepts only assertions that are bound to their request (identity.assertion.bind).
	Bound bool
	Keys  *Keys
}

// Verify returns the claims of a request's assertion, or ErrRefused if it is not valid.
func (v *Verifier) Verify(r *http.Request) (Claims, error) {
	assertions := r.Header["X-Auth-Assertion"]
	if len(assertions) != 1 {
		return nil, refused("expected exactly one assertion")
	}
	claims, err := v.verifyToken(assertions[0])
	if err != nil {
		return nil, err
	}
	if _, dev := claims["dev"]; dev {
		return nil, refused("it was made for tests")
	}
	if v.Bound || claims.areBound() {
		return claims, claims.checkRequest(r)
	}
	return claims, nil
}

func (c Claims) areBound() bool {
	for _, name := range []string{"htm", "htu", "rid"} {
		if _, bound := c[name]; bound {
			return true
		}
	}
	return false
}

// checkRequest compares a bound assertion with the method, the target as received, and the id of a
// request.
func (c Claims) checkRequest(r *http.Request) error {
	digest := sha256.Sum256([]byte(r.RequestURI))
	ids := r.Header["X-Request-Id"]
	if c["htm"] != r.Method || c["htu"] != base64.RawURLEncoding.EncodeToString(digest[:]) ||
		len(ids) != 1 || c["rid"] != ids[0] {
		return refused("it is for another request")
	}
	return nil
}

func (v *Verifier) verifyToken(assertion string) (Claims, error) {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return nil, refused("it does not have three parts")
	}
	var header struct {
		Alg  string   `json:"alg"`
		Kid  string   `json:"kid"`
		Crit []string `json:"crit"`
	}
	if err := decodePart(parts[0], &header); err != nil {
		return nil, refused("its header cannot be read")
	}
	if header.Crit != nil {
		return nil, refused("it has a header that is not understood")
	}
	key, err := v.Keys.Find(header.Kid)
	if err != nil {
		return nil, err
	}
	// The key decides the algorithm, not the assertion: never "none", never a shared secret.
	if header.Alg != key.Algorithm {
		return nil, refused("its algorithm is not the one of the key")
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !isSigned(key.Public, []byte(parts[0]+"."+parts[1]), signature) {
		return nil, refused("its signature is wrong")
	}
	claims := Claims{}
	if err := decodePart(parts[1], &claims); err != nil {
		return nil, refused("its claims cannot be read")
	}
	return claims, v.check(claims, time.Now())
}

func (v *Verifier) check(claims Claims, now time.Time) error {
	if claims["iss"] != v.Issuer {
		return refused("it has another issuer")
	}
	if !isFor(claims["aud"], v.Audience) {
		return refused("it has another audience")
	}
	expires, ok := claims["exp"].(float64)
	if !ok || now.Add(-Leeway).Unix() >= int64(expires) {
		return refused("it has expired")
	}
	issued, ok := claims["iat"].(float64)
	if !ok || now.Add(Leeway).Unix() < int64(issued) {
		return refused("it is from the future")
	}
	if subject, _ := claims["sub"].(string); subject == "" {
		return refused("it has no subject")
	}
	return nil
}

func isSigned(public crypto.PublicKey, message, signature []byte) bool {
	switch key := public.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(key, message, signature)
	case *ecdsa.PublicKey:
		// The signature is two numbers of 32 bytes (RFC 7518 3.4).
		if len(signature) != 64 {
			return false
		}
		digest := sha256.Sum256(message)
		r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
		return ecdsa.Verify(key, digest[:], r, s)
	}
	return false
}

// isFor reports whether the claim aud, a name or a list of names, contains a name.
func isFor(audience any, name string) bool {
	if list, ok := audience.([]any); ok {
		for _, each := range list {
			if each == name {
				return true
			}
		}
		return false
	}
	return audience == name
}

func decodePart(part string, into any) error {
	content, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

func refused(why string) error {
	return fmt.Errorf("%w: %s", ErrRefused, why)
}
