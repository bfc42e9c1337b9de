import { expect, test } from "vitest";
import {
  createReceiverList,
  readTarget,
  receiverEntryProblem,
  toTarget,
} from "../../../shared/job-call/callback-target.ts";

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
  ["https://user@hooks.example.com/", "must have no user or password"],
  ["https://user:pass@hooks.example.com/", "must have no user or password"],
  ["https://@hooks.example.com/", "must have no user or password"],
  ["https:\\\\user@hooks.example.com/", "must have no user or password"],
  ["https://hooks.example.com/#part", "must have no fragment"],
  ["https://hooks.example.com/ x", "must be visible ASCII without spaces"],
  ["https://hööks.example.com/", "must be visible ASCII without spaces"],
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
  ["https://hooks.example.com/?a={b}", "https://hooks.example.com/?a=%7Bb%7D", "hooks.example.com"],
])("%s is called as %s, and its receiver is %s", (text, url, receiver) => {
  expect(toTarget(readUrl(text))).toEqual({ url, receiver });
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

test("a host with an entry of its own is allowed by that, also below a wildcard", () => {
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
  ["*.com", "would let in a whole top-level domain"],
])("an entry has one form: %s %s", (entry, problem) => {
  expect(receiverEntryProblem(entry)).toBe(problem);
});
