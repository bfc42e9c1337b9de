import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** The head of a page: its title, which gets the focus when the page opens, and what belongs beside it. */
export function PageHead({ title, children }: { title: string; children?: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Postern`;
  }, [title]);
  useEffect(() => {
    heading.current?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }, []);
  return (
    <div class="page-head">
      <h1 ref={heading} tabIndex={-1}>
        {title}
      </h1>
      <div class="page-tools">{children}</div>
    </div>
  );
}
