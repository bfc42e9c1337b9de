import { isIPv6 } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { addressKey, canonicalAddress } from "../../../../shared/http/ip/address.ts";

test.each([
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["::FFFF:C000:0201", "192.0.2.1"],
  ["2001:DB8:0:0:0:0:0:1", "2001:db8::1"],
  ["fe80::1%eth0", "fe80::1"],
])("the canonical form of %s is %s", (text, canonical) => {
  expect(canonicalAddress(text)).toBe(canonical);
});

test.each([
  "",
  "127.1",
  "0177.0.0.1",
  "192.0.2.1:80",
  "[::1]",
  "192.0.2.256",
  "::ffff:192.0.2.256",
  "unknown",
  " ::1",
])("%j is not an address", (text) => {
  expect(canonicalAddress(text)).toBeUndefined();
});

test("every address has one canonical form, which is canonical itself", () => {
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (text) => {
      const canonical = canonicalAddress(text);
      return canonical !== undefined && canonicalAddress(canonical) === canonical;
    }),
  );
});

test("an IPv4 address is its own key, even if it is written as IPv6", () => {
  expect(addressKey("192.0.2.1")).toBe("192.0.2.1");
  expect(addressKey("::ffff:192.0.2.1")).toBe("192.0.2.1");
  expect(addressKey("192.0.2.2")).not.toBe(addressKey("192.0.2.1"));
});

test("IPv6 addresses have the same key if and only if they are in the same /64", () => {
  const half = fc.array(fc.integer({ min: 1, max: 0xffff }), { minLength: 4, maxLength: 4 });
  const text = (parts: number[]) => parts.map((part) => part.toString(16)).join(":");
  fc.assert(
    fc.property(half, half, half, half, (network, other, host, otherHost) => {
      const key = addressKey(`${text(network)}:${text(host)}`);
      expect(addressKey(`${text(network)}:${text(otherHost)}`)).toBe(key);
      expect(addressKey(`${text(other)}:${text(host)}`) === key).toBe(text(other) === text(network));
      expect(isIPv6(key.replace("/64", ""))).toBe(true);
    }),
  );
});
