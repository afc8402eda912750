package handover_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"kshare/internal/handover"
	"kshare/internal/memorynet"
)

const number, addr = 7, "127.0.0.1:9092"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// While ports are kept, a connection that comes in between two listeners is the second one's.
func TestKeptPortWaitsForTheNextListener(t *testing.T) {
	network, ports := &memorynet.Network{}, &handover.Ports{}
	listen := func() (net.Listener, error) { return network.Listen(addr) }
	first, err := ports.Listen(number, listen)
	require.NoError(t, err)
	require.Equal(t, addr, first.Addr().String())
	ports.Keep(true)
	require.NoError(t, first.Close())
	require.NoError(t, first.Close(), "a second time does nothing")
	_, err = first.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	client, err := network.Dial(context.Background(), "", addr)
	require.NoError(t, err)
	defer client.Close()

	second, err := ports.Listen(number, func() (net.Listener, error) { return nil, errors.New("it is open already") })
	require.NoError(t, err)
	ports.Keep(false)
	server, err := second.Accept()
	require.NoError(t, err)
	defer server.Close()
	require.NoError(t, second.Close())
	_, err = network.Dial(context.Background(), "", addr)
	require.ErrorIs(t, err, memorynet.ErrRefused, "a port that is not kept is closed with its listener")

	third, err := ports.Listen(number, listen)
	require.NoError(t, err, "and can be opened again")
	require.NoError(t, third.Close())
}

// What waits for a listener that never comes is closed with the ports.
func TestCloseEndsWhatWaits(t *testing.T) {
	network, ports := &memorynet.Network{}, &handover.Ports{}
	l, err := ports.Listen(number, func() (net.Listener, error) { return network.Listen(addr) })
	require.NoError(t, err)
	ports.Keep(true)
	require.NoError(t, l.Close())
	client, err := network.Dial(context.Background(), "", addr)
	require.NoError(t, err)
	require.NoError(t, ports.Close())
	_, err = client.Read(make([]byte, 1))
	require.Error(t, err)
	require.NoError(t, client.Close())
	require.NoError(t, ports.Close())
}

// failing is a listener that fails once and then ends.
type failing struct {
	net.Listener
	errs []error
}

func (f *failing) Accept() (net.Conn, error) {
	err := f.errs[0]
	f.errs = f.errs[1:]
	return nil, err
}

func (f *failing) Close() error { return nil }

func TestErrorsOfAcceptArePassedOn(t *testing.T) {
	noFiles := errors.New("too many open files")
	ports := &handover.Ports{}
	l, err := ports.Listen(number, func() (net.Listener, error) { return &failing{errs: []error{noFiles, net.ErrClosed}}, nil })
	require.NoError(t, err)
	_, err = l.Accept()
	require.ErrorIs(t, err, noFiles)
	require.NoError(t, l.Close())
	refused := errors.New("address in use")
	_, err = ports.Listen(number, func() (net.Listener, error) { return nil, refused })
	require.ErrorIs(t, err, refused)
}
