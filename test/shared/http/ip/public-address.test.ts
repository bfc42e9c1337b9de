import fc from "fast-check";
import { expect, test } from "vitest";
import { createAddressList } from "../../../../shared/http/ip/address-list.ts";
import { isPublicHost, mayConnectTo } from "../../../../shared/http/ip/public-address.ts";

const NONE = createAddressList([]);

test.each([
  ["this host", "0.0.0.0"],
  ["this network", "0.1.2.3"],
  ["loopback", "127.0.0.1"],
  ["all of loopback", "127.255.255.254"],
  ["private", "10.0.0.1"],
  ["private", "172.16.0.1"],
  ["private", "172.31.255.255"],
  ["private", "192.168.1.1"],
  ["link-local", "169.254.169.254"],
  ["carrier-grade NAT", "100.64.0.1"],
  ["Alibaba's metadata", "100.100.100.200"],
  ["Oracle's metadata", "192.0.0.192"],
  ["Azure's host", "168.63.129.16"],
  ["benchmark", "198.18.0.1"],
  ["documentation", "192.0.2.1"],
  ["documentation", "198.51.100.1"],
  ["documentation", "203.0.113.1"],
  ["multicast", "224.0.0.1"],
  ["reserved", "240.0.0.1"],
  ["broadcast", "255.255.255.255"],
  ["unspecified", "::"],
  ["loopback", "::1"],
  ["IPv4 inside of IPv6", "::ffff:127.0.0.1"],
  ["the same in hex", "::ffff:7f00:1"],
  ["the deprecated form of it", "::127.0.0.1"],
  ["translated", "::ffff:0:127.0.0.1"],
  ["NAT64 of a private one", "64:ff9b::10.0.0.1"],
  ["NAT64 of link-local", "64:ff9b::a9fe:a9fe"],
  ["NAT64 of a network's own", "64:ff9b:1::808:808"],
  ["6to4 of a private one", "2002:0a00:0001::1"],
  ["6to4 of loopback", "2002:7f00:1::"],
  ["Teredo", "2001:0:4136:e378:8000:63bf:3fff:fdd2"],
  ["unique local", "fd00:ec2::254"],
  ["link-local", "fe80::1"],
  ["link-local with its zone", "fe80::1%eth0"],
  ["site-local", "fec0::1"],
  ["multicast", "ff02::1"],
  ["documentation", "2001:db8::1"],
  ["documentation", "3fff::1"],
  ["discard", "100::1"],
  ["segment routing", "5f00::1"],
  ["no address", "localhost"],
  ["a short form", "127.1"],
  ["nothing", ""],
])("a connection to %s is refused: %s", (_what, address) => {
  expect(mayConnectTo(address, NONE)).toBe(false);
});

test.each([
  ["1.1.1.1"],
  ["172.15.255.255"],
  ["172.32.0.1"],
  ["100.63.255.255"],
  ["100.128.0.1"],
  ["::ffff:8.8.8.8"],
  ["64:ff9b::8.8.8.8"],
  ["2002:0808:0808::1"],
  ["2606:4700:4700::1111"],
  ["2a00:1450:4001:800::200e"],
])("a connection to the public address %s is permitted", (address) => {
  expect(mayConnectTo(address, NONE)).toBe(true);
});

test("connections to addresses of an allowed range are permitted in any notation, and to no others", () => {
  const allowed = createAddressList(["10.1.0.0/16", "fd00:1::/32"]);
  for (const address of ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "fd00:1::5"])
    expect(mayConnectTo(address, allowed)).toBe(true);
  for (const address of ["10.2.0.1", "127.0.0.1", "fd00:2::5"])
    expect(mayConnectTo(address, allowed)).toBe(false);
});

test("an IPv4 address inside an IPv6 address is judged like the IPv4 address alone", () => {
  fc.assert(
    fc.property(fc.ipV4(), (inner) => {
      const alone = mayConnectTo(inner, NONE);
      return [`::ffff:${inner}`, `64:ff9b::${inner}`].every((text) => mayConnectTo(text, NONE) === alone);
    }),
  );
});

test.each([
  ["mainnet.base.org", true],
  ["mainnet.base.org.", true],
  ["1.1.1.1", true],
  ["[2606:4700::1111]", true],
  ["localhost", false],
  ["anvil.localhost", false],
  ["127.0.0.1", false],
  ["[::1]", false],
  ["[fd00::1]", false],
  ["192.168.1.7", false],
  ["anvil", false],
  ["anvil.", false],
  ["node.local", false],
  ["node.internal", false],
  ["node.home.arpa", false],
  ["node.test", false],
  ["", false],
])("the host %s is public: %s", (host, expected) => {
  expect(isPublicHost(host)).toBe(expected);
});
