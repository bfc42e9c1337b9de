import { expect, test } from "vitest";
import {
  createReceiverList,
  portsOfReceiver,
  readReceiver,
  readTarget,
  receiverEntryProblem,
  toTarget,
} from "../../../shared/call/callback-target.ts";

const readUrl = (text: string): URL => {
  const read = readTarget(text);
  if ("problem" in read) throw new Error(read.problem);
  return read.url;
};

test.each([
  ["ftp://hooks.example.com/", "must be an https URL"],
  ["file:///etc/passwd", "must be an https URL"],
  ["javascript:alert(1)", "must be an https URL"],
  ["gopher://hooks.example.com/", "must be an https URL"],
  ["//hooks.example.com/", "must be an https URL"],
  ["hooks.example.com", "must be an https URL"],
  ["https://", "must be an https URL"],
  ["https://user@hooks.example.com/", "must not contain a user or password"],
  ["https://user:pass@hooks.example.com/", "must not contain a user or password"],
  ["https://@hooks.example.com/", "must not contain a user or password"],
  ["https:\\\\user@hooks.example.com/", "must not contain a user or password"],
  ["https://hooks.example.com/#part", "must not contain a fragment"],
  ["https://hooks.example.com/ x", "must be visible ASCII without spaces"],
  ["https://hööks.example.com/", "must be visible ASCII without spaces"],
  ["https://../", "must have no empty label in its host"],
  ["https://hooks..example.com/", "must have no empty label in its host"],
  ["", "must be visible ASCII without spaces"],
  [`https://hooks.example.com/${"x".repeat(2048)}`, "is longer than 2048 characters"],
])("%s is no URL of a receiver", (text, problem) => {
  expect(readTarget(text)).toEqual({ problem });
});

test.each([
  ["https://hooks.example.com", "https://hooks.example.com/", "hooks.example.com"],
  ["HTTPS://Hooks.Example.com:443/a?b=c", "https://hooks.example.com/a?b=c", "hooks.example.com"],
  ["https://hooks.example.com:8443/", "https://hooks.example.com:8443/", "hooks.example.com/8443"],
  ["https://0x7f.1/", "https://127.0.0.1/", "127.0.0.1"],
  ["https://[2001:db8::1]:8443/", "https://[2001:db8::1]:8443/", "[2001-db8--1]/8443"],
  ["https://hooks.example.com./", "https://hooks.example.com./", "hooks.example.com"],
  ["https://hooks.example.com:80/", "https://hooks.example.com:80/", "hooks.example.com"],
  ["http://hooks.example.com:443/", "http://hooks.example.com:443/", "hooks.example.com"],
  ["https://hooks.example.com/?a={b}", "https://hooks.example.com/?a=%7Bb%7D", "hooks.example.com"],
])("%s is called as %s, and its receiver is %s", (text, url, receiver) => {
  expect(toTarget(readUrl(text))).toEqual({ url, receiver });
  expect(readReceiver(receiver)).toEqual({ receiver });
});

test.each([
  ["HOOKS.Example.com", "hooks.example.com"],
  ["hooks.example.com.", "hooks.example.com"],
  ["hooks.example.com/443", "hooks.example.com"],
  ["hooks.example.com:80", "hooks.example.com"],
  ["hooks.example.com/08443", "hooks.example.com/8443"],
  ["hooks.example.com:8443", "hooks.example.com/8443"],
  ["h\u00f6oks.example.com", "xn--hoks-5qa.example.com"],
  ["XN--HOKS-5QA.example.com", "xn--hoks-5qa.example.com"],
  ["0x7f.1/8443", "127.0.0.1/8443"],
  ["[2001:DB8:0::1]:8443", "[2001-db8--1]/8443"],
  ["[2001-db8--1]/8443", "[2001-db8--1]/8443"],
  ["[::ffff:127.0.0.1]", "[--ffff-7f00-1]"],
])("an operator who names the receiver %s means %s", (text, receiver) => {
  expect(readReceiver(text)).toEqual({ receiver });
});

test.each([
  ...[
    "",
    "/8443",
    "hooks.example.com/",
    "hooks.example.com/x",
    "hooks.example.com/65536",
    "hooks.example.com/0",
    "a/1/2",
    "..",
    ".a",
  ],
  ...[
    "a..b",
    "a b",
    " a",
    "a\nb",
    "a\u0000b",
    "a\\b",
    "a@b",
    "a?b",
    "a#b",
    "loc%61lhost",
    "a%2Fb",
    "a\uff0fb",
    "a\uff05b",
  ],
  ...["::1", "[::1", "[a]", "[::1]x", "1.2.3.4.5", "https://a", "*.example.com", "*"],
])("%j names no receiver", (text) => {
  expect(readReceiver(text)).toEqual({ problem: expect.stringMatching(/^must be a host, such as hooks/) });
});

test("a receiver's name without a port includes the ports of https and http", () => {
  expect(portsOfReceiver("hooks.example.com")).toEqual([443, 80]);
  expect(portsOfReceiver("[--1]/8443")).toEqual([8443]);
});

const LIST = createReceiverList([
  "hooks.example.com",
  "*.example.org",
  "hooks.example.net:8443",
  "http://hooks.internal:8080",
  "203.0.113.7",
]);

test.each([
  ["https://hooks.example.com/any?path", "host"],
  ["https://HOOKS.example.com/", "host"],
  ["https://a.example.org/", "wildcard"],
  ["https://a.b.example.org/", "wildcard"],
  ["https://hooks.example.net:8443/", "host"],
  ["http://hooks.internal:8080/", "host"],
  ["https://203.0.113.7/", "host"],
  ["https://0xcb.0.0x71.7/", "host"],
])("a request may name %s, by an entry that is a %s", (text, match) => {
  expect(LIST.match(readUrl(text))).toBe(match);
});

test("a host with its own entry is allowed by that entry, even below a wildcard", () => {
  const list = createReceiverList(["*.example.org", "a.example.org"]);
  expect(list.match(readUrl("https://a.example.org/"))).toBe("host");
});

test.each([
  ["another host", "https://example.com/"],
  ["a host below one that is listed alone", "https://a.hooks.example.com/"],
  ["the name above those that are listed", "https://example.org/"],
  ["a name that ends alike", "https://evilexample.org/"],
  ["a name that begins alike", "https://hooks.example.com.evil.test/"],
  ["a dot at the end", "https://hooks.example.com./"],
  ["another port", "https://hooks.example.com:8443/"],
  ["the usual port of one with another", "https://hooks.example.net/"],
  ["http", "http://hooks.example.com/"],
  ["https in place of http", "https://hooks.internal:8080/"],
  ["another address", "https://203.0.113.8/"],
  ["loopback in another form", "https://2130706433/"],
])("a request may not name %s: %s", (_what, text) => {
  expect(LIST.match(readUrl(text))).toBeUndefined();
});

test.each([
  "https://hooks.example.com",
  "hooks.example.com/path",
  "user@hooks.example.com",
  "*",
  "*.*.example.com",
  "a b",
  "",
])("%j is no entry of such a list", (entry) => {
  expect(receiverEntryProblem(entry)).toMatch(/^must be a host/);
});

test.each([
  ["Hooks.example.com", "must be written as hooks.example.com"],
  ["hooks.example.com:443", "must be written as hooks.example.com"],
  ["127.1", "must be written as 127.0.0.1"],
  ["*.com", "allows a whole top-level domain: name a domain below it"],
])("an entry has one form: %s %s", (entry, problem) => {
  expect(receiverEntryProblem(entry)).toBe(problem);
});
