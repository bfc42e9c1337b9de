import type { IncomingMessage } from "node:http";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createClientAddressOf, type ForwardedHeader } from "../../../shared/http/client-address.ts";
import { LONG_RUN } from "../../support/long-run.ts";

type Headers = readonly (readonly [name: string, value: string])[];

function addressOf(
  peer: string,
  headers: Headers,
  { trusted = ["10.0.0.0/8", "2001:db8::/32"], header = "X-Forwarded-For" as ForwardedHeader } = {},
): string {
  const req = { socket: { remoteAddress: peer }, rawHeaders: headers.flat() };
  const clientAddressOf = createClientAddressOf({ trustedProxies: trusted, forwardedHeader: header });
  return clientAddressOf(req as unknown as IncomingMessage);
}

const xff = (value: string, peer = "10.0.0.1") => addressOf(peer, [["X-Forwarded-For", value]]);
const forwarded = (value: string, peer = "10.0.0.1") =>
  addressOf(peer, [["Forwarded", value]], { header: "Forwarded" });

test("without trusted proxies a request counts for its peer, and its headers are ignored", () => {
  const headers: Headers = [
    ["X-Forwarded-For", "192.0.2.1"],
    ["Forwarded", "for=192.0.2.1"],
  ];
  expect(addressOf("::ffff:10.0.0.1", headers, { trusted: [] })).toBe("10.0.0.1");
});

test("an address from a peer that is not a trusted proxy is ignored", () => {
  expect(xff("192.0.2.1", "203.0.113.9")).toBe("203.0.113.9");
  expect(forwarded("for=192.0.2.1", "203.0.113.9")).toBe("203.0.113.9");
});

test.each([
  ["192.0.2.1", "192.0.2.1"],
  ["198.51.100.1, 192.0.2.1", "192.0.2.1"],
  ["198.51.100.1, 192.0.2.1, 10.9.9.9", "192.0.2.1"],
  ["192.0.2.1:5678", "192.0.2.1"],
  ["[2001:db9::1]:443", "2001:db9::1"],
  ["[2001:db9::1]", "2001:db9::1"],
  ["2001:DB9::1", "2001:db9::1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["192.0.2.1, 2001:db8::7", "192.0.2.1"],
  ["10.1.1.1, 10.2.2.2", "10.1.1.1"],
  ["192.0.2.1,", "192.0.2.1"],
  ["198.51.100.1, 192.0.2.1, , ,\t10.9.9.9 ,, ", "192.0.2.1"],
])("the header X-Forwarded-For: %s of a trusted proxy yields the address %s", (value, address) => {
  expect(xff(value)).toBe(address);
});

test.each([
  "",
  ",",
  "unknown",
  "_hidden",
  "192.0.2.256",
  "192.0.2.1, 127.1",
  "192.0.2.1:x",
  "192.0.2.1 192.0.2.2",
  "[192.0.2.1]",
  "[2001:db9::1",
  "fe80::1%eth0",
  '"192.0.2.1"',
  "for=192.0.2.1",
])("the search in the header X-Forwarded-For: %j of a trusted proxy ends at the proxy itself", (value) => {
  expect(xff(value)).toBe("10.0.0.1");
});

test("an entry that is not an address ends the search at the proxy that wrote it", () => {
  expect(xff("192.0.2.1, unknown, 10.9.9.9")).toBe("10.9.9.9");
  expect(forwarded("for=192.0.2.1, for=_hidden, for=10.9.9.9")).toBe("10.9.9.9");
});

test("separate header lines form one list in their order", () => {
  const lines: Headers = [
    ["x-forwarded-for", "198.51.100.1"],
    ["X-FORWARDED-FOR", "192.0.2.1, 10.9.9.9"],
  ];
  expect(addressOf("10.0.0.1", lines)).toBe("192.0.2.1");
});

test("an empty header line is not an entry", () => {
  const lines: Headers = [
    ["X-Forwarded-For", "192.0.2.1"],
    ["X-Forwarded-For", ""],
  ];
  expect(addressOf("10.0.0.1", lines)).toBe("192.0.2.1");
});

test("only the configured header counts, because a proxy passes the other one on unchanged", () => {
  expect(addressOf("10.0.0.1", [["Forwarded", "for=192.0.2.1"]])).toBe("10.0.0.1");
  expect(addressOf("10.0.0.1", [["X-Forwarded-For", "192.0.2.1"]], { header: "Forwarded" })).toBe("10.0.0.1");
});

test.each([
  ["for=192.0.2.60", "192.0.2.60"],
  ["For=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"],
  ['proto=https;for="[2001:db9:cafe::17]:4711"', "2001:db9:cafe::17"],
  ['for="192.0.2.43:47011"', "192.0.2.43"],
  ['for=192.0.2.43, for="[2001:db8::17]"', "192.0.2.43"],
  ['for=192.0.2.60;host="a,b;c=d"', "192.0.2.60"],
  ["for=192.0.2.60, ,", "192.0.2.60"],
  ["for=198.51.100.1, for=192.0.2.60 ; by=_x", "192.0.2.60"],
])("the header Forwarded: %s of a trusted proxy yields the address %s", (value, address) => {
  expect(forwarded(value)).toBe(address);
});

test.each([
  "for=unknown",
  "for=_hidden",
  "by=192.0.2.1",
  "192.0.2.1",
  "for=192.0.2.1;for=192.0.2.2",
  "for=192.0.2.1;",
  'for="192.0.2.1',
  'for="192.0.2.1\\"',
  "for=[2001:db9::1]",
  "for =192.0.2.1",
])("the search in the header Forwarded: %j of a trusted proxy ends at the proxy itself", (value) => {
  expect(forwarded(value)).toBe("10.0.0.1");
});

test("a stranger's text in either header never changes the address that the trusted proxy adds", () => {
  const alphabet = fc.constantFrom(...'for=192.0.2.1,;"\\ []:_unkow\t');
  const anything = fc.oneof(fc.string(), fc.string({ unit: alphabet, maxLength: 60 }));
  fc.assert(
    fc.property(anything, fc.ipV4(), (stranger, client) => {
      fc.pre(!client.startsWith("10."));
      expect(xff(`${stranger}, ${client}`)).toBe(client);
      expect(forwarded(`${stranger}, for=${client};proto=https`)).toBe(client);
      expect(forwarded(`${stranger}, for="${client}:80"`)).toBe(client);
    }),
    { numRuns: LONG_RUN ? 1000 : 200 },
  );
});

test("the search ends after 16 proxies, at the last address that a trusted proxy named", () => {
  const proxies = Array.from({ length: 1000 }, (_, i) => `10.0.${Math.floor(i / 256)}.${i % 256}`);
  expect(xff(["192.0.2.1", ...proxies].join(", "))).toBe(proxies.at(-16));
});
