"""Making the course: releases, the glossary, and the gate that tries every judge."""
