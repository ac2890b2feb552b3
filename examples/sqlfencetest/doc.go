// Package sqlfencetest holds the tests of leasehold/fence/sqlfence against real
// databases: SQLite in a file, and a PostgreSQL server that the tests start in a
// temporary folder. They are in the module of the examples because leasehold
// itself brings no database driver.
package sqlfencetest
