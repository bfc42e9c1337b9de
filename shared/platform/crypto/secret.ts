import { inspect } from "node:util";

/** A value that cannot be printed by accident: a log shows `[secret]`. */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  /** Returns the secret's UTF-8 bytes. */
  bytes(): Buffer {
    return Buffer.from(this.#value, "utf8");
  }

  toString(): string {
    return "[secret]";
  }

  toJSON(): string {
    return "[secret]";
  }

  [inspect.custom](): string {
    return "[secret]";
  }
}
