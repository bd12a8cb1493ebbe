module github.com/zkserver/zkserver

go 1.26
