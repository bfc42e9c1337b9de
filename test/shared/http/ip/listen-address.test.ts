import fc from "fast-check";
import { expect, test } from "vitest";
import { listenAddressText, readListenAddress } from "../../../../shared/http/ip/listen-address.ts";

test.each([
  ["9090", "127.0.0.1:9090"],
  [":9090", "127.0.0.1:9090"],
  ["localhost:9090", "127.0.0.1:9090"],
  ["LocalHost:9090", "127.0.0.1:9090"],
  ["127.0.0.1:9090", "127.0.0.1:9090"],
  ["0.0.0.0:9090", "0.0.0.0:9090"],
  ["[::]:9090", "[::]:9090"],
  ["[::1]:9090", "[::1]:9090"],
  ["[fe80::1%eth0]:9090", "[fe80::1%eth0]:9090"],
  ["gateway.internal:9090", "gateway.internal:9090"],
  ["127.0.0.1:0", "127.0.0.1:0"],
  ["09090", "127.0.0.1:9090"],
])("the listen address %s means %s", (text, address) => {
  const read = readListenAddress(text);
  expect(typeof read === "string" ? read : listenAddressText(read)).toBe(address);
});

const EXAMPLE = 'such as "127.0.0.1:9090", or "0.0.0.0:9090" for every address of this machine';

test.each([
  ["", "is empty"],
  ["0", `must have a host and a port, ${EXAMPLE}`],
  [":0", `must have a host and a port, ${EXAMPLE}`],
  ["65536", "has a port above 65535"],
  ["127.0.0.1:65536", "has a port above 65535"],
  ["127.0.0.1", `has no port: must be "host:port", ${EXAMPLE}`],
  ["localhost:", `has no port: must be "host:port", ${EXAMPLE}`],
  ["[::1]", `has no port: must be "host:port", ${EXAMPLE}`],
  ["::1", 'must have its IPv6 address in brackets, such as "[::1]:9090"'],
  ["::1:9090", 'must have its IPv6 address in brackets, such as "[::1]:9090"'],
  ["2001:db8::1:9090", 'must have its IPv6 address in brackets, such as "[::1]:9090"'],
  ["[nonsense]:9090", 'must have an IPv6 address in its brackets, such as "[::1]:9090"'],
  ["[127.0.0.1]:9090", 'must have an IPv6 address in its brackets, such as "[::1]:9090"'],
  ["*:9090", 'has no host: write "0.0.0.0" for every IPv4 address, "[::]" for IPv6 too'],
  ["http://127.0.0.1:9090", `is a URL or a path: must be "host:port", ${EXAMPLE}`],
  ["127.0.0.1/9090", `is a URL or a path: must be "host:port", ${EXAMPLE}`],
  ["999.0.0.1:9090", `must have a host name or an IP address, ${EXAMPLE}`],
  ["127.1:9090", `must have a host name or an IP address, ${EXAMPLE}`],
  ["a b:9090", `must have a host name or an IP address, ${EXAMPLE}`],
  ["localhost:http", `must be "host:port", ${EXAMPLE}`],
  ["-1", `has no port: must be "host:port", ${EXAMPLE}`],
  ["127.0.0.1:9090:9091", `must be "host:port", ${EXAMPLE}`],
  [" 9090", `has no port: must be "host:port", ${EXAMPLE}`],
])("the address %j is refused: it %s", (text, problem) => {
  expect(readListenAddress(text)).toBe(problem);
});

test("an accepted address is accepted again in its formatted form, and a text never gives a port that it does not contain", () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[\w.:[\]*/-]{0,12}(?::\d{1,6})?$/), (text) => {
      const read = readListenAddress(text);
      if (typeof read === "string") return;
      expect(readListenAddress(listenAddressText(read))).toEqual(read);
      expect(text).toMatch(new RegExp(`(?:^|:)0*${read.port}$`));
    }),
    { numRuns: 2000 },
  );
});
