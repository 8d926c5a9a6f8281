// grpc-go: `server` echoes metadata, `client ADDRESS CA PATH` sends it and prints what came back.
// An empty CA stands for a connection without TLS.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

// A codec of messages without content.
type empty struct{}

func (empty) Marshal(interface{}) ([]byte, error) { return nil, nil }
func (empty) Unmarshal([]byte, interface{}) error { return nil }
func (empty) String() string                      { return "proto" }

func ours(all metadata.MD) metadata.MD {
	return metadata.MD{"x-text": all["x-text"], "x-raw-bin": all["x-raw-bin"]}
}

func printable(all metadata.MD) [][]string {
	lines := [][]string{}
	for _, name := range []string{"x-text", "x-raw-bin"} {
		for _, value := range all[name] {
			if strings.HasSuffix(name, "-bin") {
				value = hex.EncodeToString([]byte(value))
			}
			lines = append(lines, []string{name, value})
		}
	}
	return lines
}

func echo(_ interface{}, stream grpc.ServerStream) error {
	received, _ := metadata.FromIncomingContext(stream.Context())
	stream.SetTrailer(ours(received))
	if err := stream.SendHeader(ours(received)); err != nil {
		return err
	}
	if err := stream.RecvMsg(nil); err != nil {
		return err
	}
	return stream.SendMsg(nil)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	if os.Args[1] == "server" {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		check(err)
		fmt.Println(listener.Addr().(*net.TCPAddr).Port)
		check(grpc.NewServer(grpc.CustomCodec(empty{}), grpc.UnknownServiceHandler(echo)).Serve(listener))
	}
	security := grpc.WithInsecure()
	if os.Args[3] != "" {
		trust, err := credentials.NewClientTLSFromFile(os.Args[3], "")
		check(err)
		security = grpc.WithTransportCredentials(trust)
	}
	connection, err := grpc.Dial(os.Args[2], security, grpc.WithDefaultCallOptions(grpc.CallCustomCodec(empty{})))
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "x-text", "a", "x-text", "b, c", "x-raw-bin", "\x01\x02\x03\x04", "x-raw-bin", "\xff\x00")
	var head, trailer metadata.MD
	check(connection.Invoke(ctx, os.Args[4], nil, nil, grpc.Header(&head), grpc.Trailer(&trailer)))
	printed, _ := json.Marshal([][][]string{printable(head), printable(trailer)})
	fmt.Println(string(printed))
}
