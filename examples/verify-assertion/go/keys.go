package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"sync"
	"time"
)

// Minimum time between fetches for unknown keys, so that invented key names do not flood Latchkey.
const cooldown = 5 * time.Second

var client = http.Client{Timeout: 5 * time.Second}

// Key is the public half of one of Latchkey's signing keys.
type Key struct {
	Algorithm string
	Public    crypto.PublicKey
}

// Keys holds Latchkey's published keys. It fetches them when they are too old or when one is missing.
type Keys struct {
	URL    string
	MaxAge time.Duration

	mutex   sync.Mutex
	known   map[string]Key
	fetched time.Time
}

// Find returns the key with a name.
func (k *Keys) Find(kid string) (Key, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	age := time.Since(k.fetched)
	if _, known := k.known[kid]; age > k.MaxAge || (!known && age > cooldown) {
		if err := k.fetch(); err != nil {
			return Key{}, err
		}
	}
	key, known := k.known[kid]
	if !known {
		return Key{}, refused("no key has this name")
	}
	return key, nil
}

type jsonWebKey struct{ Kty, Crv, X, Y, Kid, Alg string }

func (k *Keys) fetch() error {
	response, err := client.Get(k.URL)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s responded with %d", k.URL, response.StatusCode)
	}
	var set struct{ Keys []jsonWebKey }
	if err := json.NewDecoder(http.MaxBytesReader(nil, response.Body, 1<<20)).Decode(&set); err != nil {
		return err
	}
	known := map[string]Key{}
	for _, each := range set.Keys {
		if public, err := each.public(); err == nil {
			known[each.Kid] = Key{each.Alg, public}
		}
	}
	k.known, k.fetched = known, time.Now()
	return nil
}

func (j jsonWebKey) public() (crypto.PublicKey, error) {
	x, err := base64.RawURLEncoding.DecodeString(j.X)
	if err != nil {
		return nil, err
	}
	switch {
	case j.Alg == "EdDSA" && j.Kty == "OKP" && j.Crv == "Ed25519" && len(x) == ed25519.PublicKeySize:
		return ed25519.PublicKey(x), nil
	case j.Alg == "ES256" && j.Kty == "EC" && j.Crv == "P-256":
		y, err := base64.RawURLEncoding.DecodeString(j.Y)
		if err != nil {
			return nil, err
		}
		key := &ecdsa.PublicKey{Curve: elliptic.P256(), X: new(big.Int).SetBytes(x), Y: new(big.Int).SetBytes(y)}
		if !key.Curve.IsOnCurve(key.X, key.Y) {
			return nil, errors.New("the point is not on the curve")
		}
		return key, nil
	}
	return nil, errors.New("unsupported kind of key")
}
