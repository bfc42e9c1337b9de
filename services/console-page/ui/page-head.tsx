import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

type Props = {
  title: string;
  /** Element that shows whether the data on the page is current (live.tsx). */
  live?: ComponentChildren;
  children?: ComponentChildren;
};

/** Head of a page: its title and controls. When the page opens, the title gets the focus, so that screen readers announce it. */
export function PageHead({ title, live, children }: Props) {
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
      {live}
      <div class="page-tools">{children}</div>
    </div>
  );
}
