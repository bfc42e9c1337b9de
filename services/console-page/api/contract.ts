import type { CONTRACT } from "../../../shared/console/contract/contract.ts";
import type { AnswerOf, PartInput } from "../../../shared/console/contract/operation.ts";

/**
 * Types of the page's requests and answers. They are derived from `CONTRACT`, the console's table of operations, so
 * that page and console cannot disagree.
 */
type Contract = typeof CONTRACT;

export type Method = Contract[keyof Contract]["method"];

type At<M, P extends string> = {
  [Name in keyof Contract]: Contract[Name] extends { method: M; path: `/${P}` } ? Contract[Name] : never;
}[keyof Contract];

/** A path of an operation, without a leading slash. Names of parameters are in braces. */
export type PathOf<M> = {
  [Name in keyof Contract]: Contract[Name] extends { method: M; path: `/${infer Path}` } ? Path : never;
}[keyof Contract];

export type AnswerAt<M, P extends string> = AnswerOf<At<M, P>>;

/**
 * Input of an operation: its path parameters, query and body. A query value may be any text, because it can come from a
 * field in which the user types. The console checks it.
 */
export type InputAt<M, P extends string> = PartInput<At<M, P>, "params"> & {
  [Name in keyof PartInput<At<M, P>, "query">]?: string | number | boolean | undefined;
} & PartInput<At<M, P>, "body">;
