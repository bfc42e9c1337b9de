import fc from "fast-check";
import { expect, test } from "vitest";
import { addressRangeProblem, createAddressList } from "../../../../shared/http/ip/address-list.ts";

test.each([
  ["203.0.113.0/24", "203.0.113.255", true],
  ["203.0.113.0/24", "203.0.114.0", false],
  ["203.0.113.0/24", "::ffff:203.0.113.9", true],
  ["203.0.113.7", "203.0.113.7", true],
  ["203.0.113.7", "203.0.113.8", false],
  ["2001:db8::/32", "2001:db8:ffff::1", true],
  ["2001:db8::/32", "2001:db9::1", false],
  ["::1", "::1", true],
  ["::/0", "203.0.113.7", false],
  ["0.0.0.0/0", "2001:db8::1", false],
  ["0.0.0.0/0", "unknown", false],
  ["0.0.0.0/0", "", false],
])("the list of %s contains %j: %s", (entry, address, matches) => {
  expect(createAddressList([entry]).matches(address)).toBe(matches);
});

test("an empty list contains no address", () => {
  expect(createAddressList([]).matches("127.0.0.1")).toBe(false);
});

test.each([
  ["", "must be an address or a range"],
  ["10.0.0.0/", "must be an address or a range"],
  ["10.0.0.0/8/8", "must be an address or a range"],
  ["10.0.0.0/08", "must be an address or a range"],
  ["10.0/16", "must be an address or a range"],
  ["10", "must be an address or a range"],
  ["0x0a.0.0.1", "must be an address or a range"],
  ["10.0.0.0/255.0.0.0", "must be an address or a range"],
  ["fe80::1%eth0", "must be an address or a range"],
  ["example.com", "must be an address or a range"],
  [" 10.0.0.1", "must be an address or a range"],
  ["10.0.0.0/33", "has a prefix longer than 32 bits"],
  ["2001:db8::/129", "has a prefix longer than 128 bits"],
  ["10.0.0.1/8", "has bits beyond its prefix: write 10.0.0.0/8"],
  ["2001:db8::1/32", "has bits beyond its prefix"],
  ["::ffff:10.0.0.0/104", "must be written as IPv4"],
])("the entry %j of a list is refused: it %s", (entry, problem) => {
  expect(addressRangeProblem(entry)).toContain(problem);
  expect(() => createAddressList([entry])).toThrow(problem);
});

test("an address is in a range if and only if both have the same prefix bits", () => {
  const octets = fc.array(fc.nat(255), { minLength: 4, maxLength: 4 });
  const bitsOf = (address: number[]) => address.map((octet) => octet.toString(2).padStart(8, "0")).join("");
  fc.assert(
    fc.property(octets, octets, fc.integer({ min: 0, max: 32 }), (network, address, prefix) => {
      const bits = bitsOf(network).slice(0, prefix).padEnd(32, "0");
      const text = [0, 8, 16, 24].map((at) => Number.parseInt(bits.slice(at, at + 8), 2)).join(".");
      const agree = bitsOf(address).startsWith(bits.slice(0, prefix));
      return createAddressList([`${text}/${prefix}`]).matches(address.join(".")) === agree;
    }),
  );
});
