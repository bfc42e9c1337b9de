import type { CONTRACT } from "../../../shared/console/contract/contract.ts";
import type { AnswerOf, AskedIn } from "../../../shared/console/contract/operation.ts";

/** The questions of the page and their answers: types that derive from the table of operations. */
type Contract = typeof CONTRACT;

export type Method = Contract[keyof Contract]["method"];

type At<M, P extends string> = {
  [Name in keyof Contract]: Contract[Name] extends { method: M; path: `/${P}` } ? Contract[Name] : never;
}[keyof Contract];

/** A path of an operation, without a slash at its start, with the names of its parameters in braces. */
export type PathOf<M> = {
  [Name in keyof Contract]: Contract[Name] extends { method: M; path: `/${infer Path}` } ? Path : never;
}[keyof Contract];

export type AnswerAt<M, P extends string> = AnswerOf<At<M, P>>;

/** The console checks the values of a query: a user may type anything. */
export type AskedAt<M, P extends string> = AskedIn<At<M, P>, "params"> & {
  [Name in keyof AskedIn<At<M, P>, "query">]?: string | number | boolean | undefined;
} & AskedIn<At<M, P>, "body">;
